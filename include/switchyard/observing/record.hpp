// SPDX-License-Identifier: MIT
// SWITCHYARD_RECORD: the problems that an engine ran, as JSON lines for the tuner. The counts of lines with
// the same problem add up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unistd.h>

#include <switchyard/base/compiled.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/operator_description.hpp>

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
            std::uint64_t count) noexcept;

  /// The line of a problem, with its end.
  [[nodiscard]] static std::string format(const operator_description& op, const device_properties& device,
                                          problem_view problem, std::uint64_t count);

 private:
  // A write that fails for now, for example on a full disk or pipe, loses a line; where nothing more can be
  // written, the rest is. Neither stops the engine.
  void append(const std::string& line);

  int descriptor_;
  writer write_ = &::write;
  std::atomic<bool> is_closed_{false};
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/record_impl.hpp>
#endif
