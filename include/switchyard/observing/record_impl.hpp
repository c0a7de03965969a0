// SPDX-License-Identifier: MIT
// The bodies of record.hpp.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <unistd.h>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/io/closed_output.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION void recorder::note(const operator_description& op, const device_properties& device,
                                        problem_view problem, std::uint64_t count) noexcept {
  if (count == 0 || is_closed_.load(std::memory_order_relaxed)) return;
  try {
    append(format(op, device, problem, count));
  } catch (const std::bad_alloc&) {  // one line is lost
  }
}

SWITCHYARD_FUNCTION std::string recorder::format(const operator_description& op,
                                                 const device_properties& device, problem_view problem,
                                                 std::uint64_t count) {
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

SWITCHYARD_FUNCTION void recorder::append(const std::string& line) {
  if (write_(descriptor_, line.data(), line.size()) >= 0) return;
  const int why = errno;
  if (!is_closed_by(why) || is_closed_.exchange(true, std::memory_order_relaxed)) return;
  const std::string warning = closed_warning("SWITCHYARD_RECORD", why, "calls are no longer recorded");
  [[maybe_unused]] const ::ssize_t said = write_(2, warning.data(), warning.size());
}

}  // namespace v0
}  // namespace switchyard
