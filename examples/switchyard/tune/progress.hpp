// SPDX-License-Identifier: MIT
// Progress of a tuning run: a bar on a terminal, lines in a file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tool {

/// "4.2 s", "3 min 20 s", "2 h 5 min".
[[nodiscard]] std::string duration_text(double seconds);

class progress {
 public:
  /// `total` problems, of which `done` were measured before. Any thread may call any function.
  progress(std::FILE* out, std::size_t total, std::size_t done, std::optional<double> budget_seconds);
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { close(); }

  /// What a worker does now, and the best variant so far, if there is one.
  void update(std::size_t worker, const std::string& doing, const std::string& best);
  /// A problem is finished: prints a line to a file, or updates the bar on a terminal.
  void finished(std::size_t worker, const std::string& line);
  /// A variant failed: prints a line, on a terminal too.
  void failed(const std::string& line);
  /// Prints a line, on a terminal too.
  void say(const std::string& line);
  /// Removes the bar.
  void close();

  [[nodiscard]] std::size_t failures() const;

 private:
  using clock = std::chrono::steady_clock;
  struct worker_state {
    std::string doing;
    std::string best;
  };

  void draw(bool now);
  void erase();
  void print(const std::string& line);
  [[nodiscard]] std::string counts() const;
  [[nodiscard]] std::string bar() const;

  std::FILE* out_;
  bool terminal_;
  std::size_t total_;
  std::size_t before_;
  std::size_t done_;
  std::size_t failures_ = 0;
  std::optional<double> budget_;
  clock::time_point begin_ = clock::now();
  double finished_at_ = 0;  ///< seconds from the beginning to the last problem's end
  double recent_ = 0;       ///< seconds that the last few problems took
  clock::time_point drawn_{};
  bool visible_ = false;
  std::map<std::size_t, worker_state> workers_;
  mutable std::mutex mutex_;
};

}  // namespace tool
