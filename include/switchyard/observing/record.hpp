// SWITCHYARD_RECORD: the problems that an engine ran, as JSON lines for the tuner. The counts of lines with
// the same problem add up.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <unistd.h>

#include <switchyard/base/closed_output.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

class recorder {
 public:
  /// How bytes are written: write(2), or write_quietly where a signal may come of it.
  using writer = ::ssize_t (*)(int, const void*, std::size_t);

  /// Appends to a descriptor, and closes it on destruction.
  explicit recorder(int descriptor, writer write = &::write) noexcept
      : descriptor_{descriptor}, write_{write} {}
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder() { ::close(descriptor_); }

  /// Appends a problem that was called `count` times. One write for each line lets processes share a file.
  void note(const operator_description& op, const device_properties& device, problem_view problem,
            std::uint64_t count) noexcept {
    if (count == 0 || is_closed_.load(std::memory_order_relaxed)) return;
    try {
      append(format(op, device, problem, count));
    } catch (const std::bad_alloc&) {  // one line is lost
    }
  }

 private:
  [[nodiscard]] static std::string format(const operator_description& op, const device_properties& device,
                                          problem_view problem, std::uint64_t count) {
    std::string line = R"({"operator":)" + text::quote_json(op.name) + R"(,"device":)" +
                       text::quote_json(device.name) + R"(,"problem":{)";
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      if (i > 0) line += ',';
      line += text::quote_json(op.axes[i].name) + ":";
      const std::string value = format_value(op.axes[i], problem[i]);
      line += op.axes[i].value_names.empty() ? value : text::quote_json(value);
    }
    return line + "},\"count\":" + std::to_string(count) + "}\n";
  }

  // A write that fails for now, for example on a full disk or pipe, loses a line; where nothing more can be
  // written, the rest is. Neither stops the engine.
  void append(const std::string& line) {
    if (write_(descriptor_, line.data(), line.size()) >= 0) return;
    const int why = errno;
    if (!is_closed_by(why) || is_closed_.exchange(true, std::memory_order_relaxed)) return;
    const std::string warning = closed_warning("SWITCHYARD_RECORD", why, "calls are no longer recorded");
    [[maybe_unused]] const ::ssize_t said = write_(2, warning.data(), warning.size());
  }

  int descriptor_;
  writer write_ = &::write;
  std::atomic<bool> is_closed_{false};
};

}  // namespace v0
}  // namespace switchyard
