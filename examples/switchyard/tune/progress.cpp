// SPDX-License-Identifier: MIT
#include "tune/progress.hpp"

#include <algorithm>
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>

#include <switchyard/base/text.hpp>

namespace tool {

namespace {

[[nodiscard]] std::size_t terminal_width(std::FILE* of) {
  winsize size{};
  if (::ioctl(::fileno(of), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

/// Cuts a text to columns. Texts are ASCII, except device names, which come last.
[[nodiscard]] std::string cut(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : switchyard::text::shortened(text, columns - 3);
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 9.95) return switchyard::text::number(std::round(seconds * 10) / 10) + " s";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

progress::progress(std::FILE* out, std::size_t total, std::size_t done, std::optional<double> budget_seconds)
    : out_{out},
      terminal_{::isatty(::fileno(out)) != 0},
      total_{total},
      before_{done},
      done_{done},
      budget_{budget_seconds} {}

void progress::update(std::size_t worker, const std::string& doing, const std::string& best) {
  const std::scoped_lock lock{mutex_};
  auto& state = workers_[worker];
  const bool is_news = !best.empty() && best != state.best;
  state = {doing, best};
  draw(is_news);
}

void progress::finished(std::size_t worker, const std::string& line) {
  const std::scoped_lock lock{mutex_};
  ++done_;
  const double now = std::chrono::duration<double>(clock::now() - begin_).count();
  const double took = now - finished_at_;
  recent_ = done_ == before_ + 1 ? took : recent_ + (took - recent_) / 4;
  finished_at_ = now;
  workers_.erase(worker);
  if (terminal_) {
    draw(true);
  } else {
    print(counts() + ": " + line);
  }
}

void progress::failed(const std::string& line) {
  const std::scoped_lock lock{mutex_};
  ++failures_;
  print(line);
}

void progress::say(const std::string& line) {
  const std::scoped_lock lock{mutex_};
  print(line);
}

void progress::close() {
  const std::scoped_lock lock{mutex_};
  erase();
  std::fflush(out_);
}

std::size_t progress::failures() const {
  const std::scoped_lock lock{mutex_};
  return failures_;
}

void progress::print(const std::string& line) {
  erase();
  std::fprintf(out_, "%s\n", switchyard::text::printable(line).c_str());
  std::fflush(out_);
  draw(true);
}

void progress::erase() {
  if (visible_) std::fputs("\r\x1b[K", out_);
  visible_ = false;
}

/// "12/40, 2 failures, 3 min 20 s left".
std::string progress::counts() const {
  std::string out = std::to_string(done_) + "/" + std::to_string(total_);
  if (failures_ > 0) out += ", " + std::to_string(failures_) + (failures_ == 1 ? " failure" : " failures");
  const double elapsed = std::chrono::duration<double>(clock::now() - begin_).count();
  std::optional<double> left;
  if (done_ > before_ && done_ < total_) {
    // A problem's duration varies by orders of magnitude over a grid. The longer of two means, of all
    // problems and of the last few, seldom promises too little.
    const double mean = finished_at_ / static_cast<double>(done_ - before_);
    const double rest = static_cast<double>(total_ - done_);
    left = std::max(0.0, std::max(mean, recent_) * rest - (elapsed - finished_at_));
  }
  if (budget_) {
    const double rest = std::max(0.0, *budget_ - elapsed);
    if (!left || *left > rest) return out + ", " + duration_text(rest) + " of the budget left";
  }
  if (left) out += ", about " + duration_text(*left) + " left";
  return out;
}

std::string progress::bar() const {
  constexpr std::size_t width = 20;
  const std::size_t full = total_ == 0 ? width : done_ * width / total_;
  std::string out = "[" + std::string(full, '#') + std::string(width - full, '.') + "] " + counts();
  for (const auto& [worker, state] : workers_) {
    out += " | ";
    if (!state.best.empty()) out += "best " + state.best + ", ";
    out += state.doing;
  }
  return out;
}

void progress::draw(bool now) {
  using namespace std::chrono_literals;
  if (!terminal_) return;
  if (!now && clock::now() - drawn_ < 100ms) return;
  drawn_ = clock::now();
  std::fprintf(out_, "\r\x1b[K%s", cut(bar(), terminal_width(out_) - 1).c_str());
  std::fflush(out_);
  visible_ = true;
}

}  // namespace tool
