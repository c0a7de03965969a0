// The log for debug lines and warnings. Each line is one write; any thread may write.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <switchyard/base/closed_output.hpp>
#include <switchyard/base/lock.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice.hpp>

namespace switchyard {
inline namespace v0 {

/// How much is printed about choices.
enum class debug_level : int { silent = 0, choices = 1, launches = 2 };

class log {
 public:
  /// How bytes are written: write(2), or write_quietly where a signal may come of it.
  using writer = ::ssize_t (*)(int, const void*, std::size_t);

  log() = default;
  /// Writes to a descriptor, and closes it on destruction unless it is standard error.
  log(debug_level level, bool json, int descriptor, writer write = &::write)
      : level_{level}, json_{json}, descriptor_{descriptor}, write_{write} {}
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  /// Prints the summary of choices, unless the level is silent.
  ~log() {
    try {
      if (level_ != debug_level::silent && total() > 0) write_summary();
    } catch (const std::bad_alloc&) {  // there is no summary
    }
    if (descriptor_ > 2) ::close(descriptor_);
  }

  [[nodiscard]] debug_level level() const noexcept { return level_; }
  [[nodiscard]] bool json() const noexcept { return json_; }

  /// Counts a choice for the summary.
  void count(const choice& chosen) noexcept {
    counts_[static_cast<std::size_t>(chosen.why)].fetch_add(1, std::memory_order_relaxed);
  }

  /// Notes a type of calls that no rows decide, for the summary.
  void note_without_rows(std::string type) {
    const locked lock{types_mutex_};
    for (const std::string& known : types_) {
      if (known == type) return;
    }
    if (types_.size() < most_types) {
      types_.push_back(std::move(type));
    } else {
      more_types_ = true;
    }
  }

  /// The number of choices with this reason.
  [[nodiscard]] std::uint64_t counted(reason why) const noexcept {
    return counts_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }

  /// Writes one line, at every level. Line breaks in it and what a terminal would interpret are escaped.
  /// A pipe whose reader left, and a file of the largest size allowed, get no more lines; standard error is
  /// told so once.
  void line(std::string text) noexcept {
    if (is_closed_.load(std::memory_order_relaxed)) return;
    try {
      text = text::printable(std::move(text));
      text += '\n';
      write_all(text);
    } catch (const std::bad_alloc&) {  // the line is lost
    }
  }

  void warn(const std::string& message) {
    line(json_ ? R"({"event":"warning","message":)" + text::quote_json(message) + "}"
               : "switchyard: warning: " + message);
  }

 private:
  void write_all(std::string_view rest) {
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

  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& each : counts_) sum += each.load(std::memory_order_relaxed);
    return sum;
  }

  void write_summary() {
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
      line(out + (types_.empty() ? "}" : ",\"without_rows\":[" + joined_types(",") + "]}"));
      return;
    }
    line(std::move(out));
    if (!types_.empty())
      line("switchyard: no rows decide: " + joined_types("; ") + (more_types_ ? "; and others" : ""));
  }

  [[nodiscard]] std::string joined_types(std::string_view between) const {
    std::string out;
    for (const std::string& each : types_) {
      if (!out.empty()) out += between;
      out += json_ ? text::quote_json(each) : each;
    }
    return out;
  }

  static constexpr std::size_t most_types = 32;

  debug_level level_ = debug_level::silent;
  bool json_ = false;
  int descriptor_ = 2;
  writer write_ = &::write;
  std::atomic<bool> is_closed_{false};
  std::array<std::atomic<std::uint64_t>, 8> counts_{};
  mutex types_mutex_;
  std::vector<std::string> types_;  // that no rows decide
  bool more_types_ = false;         // than are kept
};

}  // namespace v0
}  // namespace switchyard
