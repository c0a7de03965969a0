// The log for debug lines and warnings. Each line is one write; any thread may write.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/choice.hpp>

namespace switchyard {
inline namespace v0 {

/// How much is printed about choices.
enum class debug_level : int { silent = 0, choices = 1, launches = 2 };

class log {
 public:
  log() = default;
  /// Writes to a descriptor, and closes it on destruction unless it is standard error.
  log(debug_level level, bool json, int descriptor) : level_{level}, json_{json}, descriptor_{descriptor} {}
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  /// Prints the summary of choices, unless the level is silent.
  ~log() {
    if (level_ != debug_level::silent && total() > 0) write_summary();
    if (descriptor_ > 2) ::close(descriptor_);
  }

  [[nodiscard]] debug_level level() const noexcept { return level_; }
  [[nodiscard]] bool json() const noexcept { return json_; }

  /// Counts a choice for the summary.
  void count(const choice& chosen) noexcept {
    counts_[static_cast<std::size_t>(chosen.why)].fetch_add(1, std::memory_order_relaxed);
  }

  /// The number of choices with this reason.
  [[nodiscard]] std::uint64_t counted(reason why) const noexcept {
    return counts_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }

  /// Writes one line, at every level. Line breaks in it and what a terminal would interpret are escaped.
  void line(std::string text) noexcept {
    text = text::printable(std::move(text));
    text += '\n';
    std::string_view rest = text;
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
      if (written <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void warn(const std::string& message) {
    line(json_ ? R"({"event":"warning","message":)" + text::quote_json(message) + "}"
               : "switchyard: warning: " + message);
  }

 private:
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
    line(json_ ? out + "}" : out);
  }

  debug_level level_ = debug_level::silent;
  bool json_ = false;
  int descriptor_ = 2;
  std::array<std::atomic<std::uint64_t>, 8> counts_{};
};

}  // namespace v0
}  // namespace switchyard
