// SWITCHYARD_RECORD: the problems that an engine ran, as JSON lines for the tuner. The counts of lines with
// the same problem add up.
#pragma once

#include <cstdint>
#include <string>
#include <unistd.h>

#include <switchyard/base/text.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

class recorder {
 public:
  /// Appends to a descriptor, and closes it on destruction.
  explicit recorder(int descriptor) noexcept : descriptor_{descriptor} {}
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder() { ::close(descriptor_); }

  /// Appends a problem that was called `count` times. One write for each line lets processes share a file.
  void note(const operator_description& op, const device_properties& device, problem_view problem,
            std::uint64_t count) noexcept {
    if (count == 0) return;
    std::string line = R"({"operator":)" + text::quote_json(op.name) + R"(,"device":)" +
                       text::quote_json(device.name) + R"(,"problem":{)";
    for (std::size_t i = 0; i < op.axes.size(); ++i) {
      if (i > 0) line += ',';
      line += text::quote_json(op.axes[i].name) + ":";
      const std::string value = format_value(op.axes[i], problem[i]);
      line += op.axes[i].value_names.empty() ? value : text::quote_json(value);
    }
    line += "},\"count\":" + std::to_string(count) + "}\n";
    // A failed write, for example on a full disk, must not stop the engine.
    [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
  }

 private:
  int descriptor_;
};

}  // namespace v0
}  // namespace switchyard
