// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
#include <string>

#include <switchyard/hardware/launch_limits.hpp>

#include "explain/explained_call.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

[[nodiscard]] std::string evaluate_extent(const std::array<sy::expression, 3>& extents,
                                          const sy::evaluation& values) {
  std::string out;
  for (const sy::expression& extent : extents) {
    if (extent.reads_fields()) return "of the call";
    const sy::integer_result result = extent.evaluate(values);
    out += (out.empty() ? "" : "x") + (result.why == sy::fault::none ? std::to_string(result.value)
                                                                     : std::string{to_string(result.why)});
  }
  return out;
}

}  // namespace

ordered_json describe_launches(const explained_call& of) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  ordered_json out = ordered_json::array();
  if (chosen.variant == sy::no_index) return out;
  const sy::variant& variant = *rules.candidates[chosen.variant].variant;
  const sy::evaluation values{of.values(), rules.device.attributes, {}, nullptr};
  for (const sy::launch& launch : variant.launches) {
    if (launch.is_fill) {
      out.push_back({{"fill", variant.workspace[launch.fill_workspace].name}, {"byte", launch.fill_byte}});
      continue;
    }
    out.push_back({{"kernel", launch.kernel},
                   {"blob", launch.blob},
                   {"grid", evaluate_extent(launch.grid, values)},
                   {"block", evaluate_extent(launch.block, values)},
                   {"shared_bytes", launch.shared_bytes.evaluate(values).value}});
  }
  return out;
}

std::int64_t workspace_bytes(const explained_call& of) {
  const sy::selector& rules = *of.rules;
  const sy::choice& chosen = of.why.chosen;
  constexpr auto step = static_cast<std::int64_t>(sy::workspace_alignment);
  std::int64_t total = 0;
  if (chosen.variant == sy::no_index) return total;
  for (const sy::named_expression& size : rules.candidates[chosen.variant].variant->workspace) {
    const std::int64_t bytes = size.value.evaluate({of.values(), rules.device.attributes, {}, nullptr}).value;
    total += (bytes + step - 1) / step * step;
  }
  return total;
}

}  // namespace tool
