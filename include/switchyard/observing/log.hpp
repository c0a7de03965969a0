// SPDX-License-Identifier: MIT
// The log for debug lines and warnings. Each line is one write; any thread may write.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/observing/code_counts.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// How much is printed about choices.
enum class debug_level : int { silent = 0, choices = 1, launches = 2 };

/// What a line of the log is about.
enum class log_kind : int { warning = 0, choice = 1, note = 2, summary = 3 };

/// A line of the log, as a program's own logger receives it.
struct log_line {
  log_kind kind = log_kind::note;
  int code = 0;             ///< the error number that a warning names; 0: none
  std::string_view text{};  ///< one line, followed by 0, valid during the call
};

/// Who receives the log's lines in place of standard error. A file of SWITCHYARD_DEBUG_FILE gets them as
/// well. Any thread may call it, a launching one too, and it must not call the library. It is valid as long
/// as the catalog and its dispatchers.
struct log_receiver {
  void (*write)(void* context, const log_line& line) noexcept = nullptr;
  void* context = nullptr;
};

class log {
 public:
  /// How bytes are written: write(2), or write_quietly where a signal may come of it.
  using writer = ::ssize_t (*)(int, const void*, std::size_t);

  log() = default;
  /// Writes to a descriptor, and closes it on destruction unless it is standard error.
  log(debug_level level, bool json, int descriptor, writer write = &::write, log_receiver receiver = {})
      : level_{level}, json_{json}, descriptor_{descriptor}, write_{write}, receiver_{receiver} {}
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  /// Prints the summary of choices, unless the level is silent.
  ~log();

  [[nodiscard]] debug_level level() const noexcept { return level_; }
  [[nodiscard]] bool json() const noexcept { return json_; }

  /// Counts a choice for the summary.
  void count(const choice& chosen) noexcept {
    counts_[static_cast<std::size_t>(chosen.why)].fetch_add(1, std::memory_order_relaxed);
  }

  /// Notes a type of calls that no rows decide, for the summary.
  void note_without_rows(std::string type);

  /// The number of choices with this reason.
  [[nodiscard]] std::uint64_t counted(reason why) const noexcept {
    return counts_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }

  /// Writes one line, at every level. Line breaks in it and what a terminal would interpret are escaped.
  /// A pipe whose reader left, and a file of the largest size allowed, get no more lines; standard error is
  /// told so once.
  void line(std::string text, log_kind kind = log_kind::note) noexcept;

  void warn(const std::string& message);

  /// The warnings so far, by the error number that they name.
  [[nodiscard]] std::vector<counted_code> warnings() const { return warnings_.read(); }

 private:
  void write_all(std::string_view rest);

  void give(std::string_view text, log_kind kind) const noexcept;

  /// The error number that a warning names; 0: none.
  [[nodiscard]] static int code_in(std::string_view text) noexcept;

  [[nodiscard]] std::uint64_t total() const noexcept;

  void write_summary();

  [[nodiscard]] std::string joined_types(std::string_view between) const;

  static constexpr std::size_t max_types = 32;

  debug_level level_ = debug_level::silent;
  bool json_ = false;
  int descriptor_ = 2;
  writer write_ = &::write;
  log_receiver receiver_;
  std::atomic<bool> is_closed_{false};
  std::array<std::atomic<std::uint64_t>, 8> counts_{};
  code_counts warnings_;
  mutex types_mutex_;
  std::vector<std::string> types_;  // that no rows decide
  bool more_types_ = false;         // than are kept
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/log_impl.hpp>
#endif
