// SPDX-License-Identifier: MIT
// The bodies of log.hpp.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/io/closed_output.hpp>
#include <switchyard/observing/log.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD log::~log() {
  try {
    if (level_ != debug_level::silent && total() > 0) write_summary();
  } catch (const std::bad_alloc&) {  // there is no summary
  }
  if (descriptor_ > 2) ::close(descriptor_);
}

SWITCHYARD_COLD void log::note_without_rows(std::string type) {
  const locked lock{types_mutex_};
  for (const std::string& known : types_) {
    if (known == type) return;
  }
  if (types_.size() < max_types) {
    types_.push_back(std::move(type));
  } else {
    more_types_ = true;
  }
}

SWITCHYARD_COLD void log::line(std::string text, log_kind kind) noexcept {
  const bool is_written = receiver_.write == nullptr || descriptor_ != 2;
  try {
    text = text::printable(std::move(text));
    if (receiver_.write != nullptr) give(text, kind);
    if (!is_written || is_closed_.load(std::memory_order_relaxed)) return;
    text += '\n';
    write_all(text);
  } catch (const std::bad_alloc&) {  // the line is lost
  }
}

SWITCHYARD_COLD void log::give(std::string_view text, log_kind kind) const noexcept {
  for (const std::string_view start : {std::string_view{"switchyard: "}, std::string_view{"warning: "}}) {
    if (text.substr(0, start.size()) == start) text.remove_prefix(start.size());
  }
  receiver_.write(receiver_.context, {kind, kind == log_kind::warning ? code_in(text) : 0, text});
}

SWITCHYARD_COLD int log::code_in(std::string_view text) noexcept {
  constexpr std::string_view before = "[switchyard.";
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return 0;
  int code = 0;
  for (const char digit : text.substr(at + before.size(), 3)) {
    if (digit >= '0' && digit <= '9') code = code * 10 + (digit - '0');
  }
  return code;
}

SWITCHYARD_COLD void log::warn(const std::string& message) {
  warnings_.count(code_in(message));
  line(json_ ? R"({"event":"warning","message":)" + text::quote_json(message) + "}"
             : "switchyard: warning: " + message,
       log_kind::warning);
}

SWITCHYARD_COLD void log::write_all(std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t written = write_(descriptor_, rest.data(), rest.size());
    const int why = errno;
    if (written < 0 && is_closed_by(why)) {
      if (is_closed_.exchange(true, std::memory_order_relaxed) || descriptor_ == 2) return;
      const std::string warning = closed_warning("SWITCHYARD_DEBUG_FILE", why, "nothing more is logged");
      [[maybe_unused]] const ssize_t said = write_(2, warning.data(), warning.size());
    }
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

SWITCHYARD_COLD std::uint64_t log::total() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& counted : counts_) sum += counted.load(std::memory_order_relaxed);
  return sum;
}

SWITCHYARD_COLD void log::write_summary() {
  std::string out = json_ ? R"({"event":"summary")" : "switchyard: summary:";
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const auto why = static_cast<reason>(i);
    const std::string name{why == reason::none ? "failed" : to_string(why)};
    const std::string value = std::to_string(counts_[i].load(std::memory_order_relaxed));
    out += json_ ? ",\"" : " ";
    out += name;
    out += json_ ? "\":" : " ";
    out += value;
  }
  if (json_) {
    line(out + (types_.empty() ? "}" : ",\"without_rows\":[" + joined_types(",") + "]}"), log_kind::summary);
    return;
  }
  line(std::move(out), log_kind::summary);
  if (!types_.empty()) {
    line("switchyard: no rows decide: " + joined_types("; ") + (more_types_ ? "; and others" : ""),
         log_kind::summary);
  }
}

SWITCHYARD_COLD std::string log::joined_types(std::string_view between) const {
  std::string out;
  for (const std::string& type : types_) {
    if (!out.empty()) out += between;
    out += json_ ? text::quote_json(type) : type;
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
