// SPDX-License-Identifier: MIT
// The bodies of find_unfit.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/choosing/find_unfit.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD std::string explain_grid(const std::string& kernel, const dim3& grid,
                                         const std::string& device) {
  return "kernel '" + kernel + "': the grid would be " + std::to_string(grid.x) + "x" +
         std::to_string(grid.y) + "x" + std::to_string(grid.z) + ", which is more than " + device + " takes";
}

SWITCHYARD_COLD std::string unfit_finder::find() {
  bool fits = check_workspace();
  for (std::size_t i = 0; fits && i < variant_.launches.size(); ++i)
    fits = variant_.launches[i].is_fill || check_launch(variant_.launches[i]);
  return std::move(why_);
}

SWITCHYARD_COLD bool unfit_finder::refuse(std::string why) {
  why_ = std::move(why);
  return false;
}

SWITCHYARD_COLD bool unfit_finder::check_workspace() {
  std::size_t total = 0;
  for (const named_expression& buffer : variant_.workspace) {
    const std::string_view text = buffer.text;
    const integer_result bytes = buffer.value.evaluate(values_);
    if (bytes.why != fault::none) return refuse_fault("workspace '" + buffer.name + "'", text, bytes.why);
    if (bytes.value < 0 || bytes.value > max_buffer_bytes) {
      return refuse("workspace '" + buffer.name + "' would take " + std::to_string(bytes.value) + " bytes" +
                    in_brackets(text));
    }
    total += padded_buffer(bytes.value);
  }
  const std::int64_t memory = device_.attribute("memory_bytes");  // 0: not known
  if (memory <= 0 || total <= static_cast<std::size_t>(memory)) return true;
  return refuse("the workspace would take " + std::to_string(total) + " bytes; the device has " +
                std::to_string(memory));
}

SWITCHYARD_COLD bool unfit_finder::check_launch(const launch& launch) {
  launch_size size;
  const launch_texts& texts = launch.texts;
  if (!read(launch.block, "block", texts.block, size.block) ||
      !read(launch.cluster, "cluster", texts.cluster, size.cluster) ||
      !read(launch.shared_bytes, "shared_bytes", texts.shared_bytes, size.shared_bytes))
    return false;
  bool is_known = true;
  for (const expression& extent : launch.grid) is_known = is_known && may_evaluate(extent);
  if (is_known && !read(launch.grid, "grid", texts.grid, size.grid)) return false;
  return check_parameters(launch.parameters) && check_limits(launch, size, is_known);
}

SWITCHYARD_COLD bool unfit_finder::check_limits(const launch& launch, const launch_size& size,
                                                bool knows_grid) {
  if (size.grid.x == 0 || size.grid.y == 0 || size.grid.z == 0) return true;
  if (knows_grid && !fits_backend(device_.backend, size.grid, size.block))
    return refuse(explain_grid(launch.kernel, size.grid, device_.name));
  const std::uint64_t most = max_block_threads(device_.backend);
  std::uint64_t threads = std::uint64_t{size.block.x} * size.block.y;
  if (most != 0 &&
      (__builtin_mul_overflow(threads, std::uint64_t{size.block.z}, &threads) || threads > most)) {
    return refuse("kernel '" + launch.kernel + "': a block would have " + std::to_string(size.block.x) + "x" +
                  std::to_string(size.block.y) + "x" + std::to_string(size.block.z) +
                  " threads; a device takes at most " + std::to_string(most));
  }
  if (device_.backend != "host" || size.shared_bytes <= max_host_scratch_bytes) return true;
  return refuse(explain_scratch(size.shared_bytes));
}

SWITCHYARD_COLD bool unfit_finder::check_parameters(const std::vector<parameter>& list) {
  for (const parameter& member : list) {
    if (!check_parameters(member.members)) return false;
    for (const tensor_map_recipe& map : member.map) {
      if (!check_map(map)) return false;
    }
    // What reads an argument is computed at each call, by other means.
    if (member.from != parameter::source::integer || member.value.reads_fields()) continue;
    const integer_result value = member.value.evaluate(values_);
    if (value.why != fault::none) return refuse_fault("parameter " + member.text, {}, value.why);
    if (!fits(member.kind, value.value)) {
      return refuse("parameter " + member.text + " would be " + std::to_string(value.value) +
                    ", which does not fit");
    }
  }
  return true;
}

SWITCHYARD_COLD bool unfit_finder::check_map(const tensor_map_recipe& map) {
  if (!check_part(map.address)) return false;
  for (const auto* const list : {&map.extents, &map.stride_bytes, &map.box, &map.element_strides}) {
    for (const expression& value : *list) {
      if (!check_part(value)) return false;
    }
  }
  return true;
}

SWITCHYARD_COLD bool unfit_finder::check_part(const expression& of) {
  if (of.reads_fields()) return true;
  const integer_result value = of.evaluate(values_);
  return value.why == fault::none || refuse_fault("a tensor map's part", {}, value.why);
}

SWITCHYARD_COLD bool unfit_finder::read(const std::array<expression, 3>& from, const char* name,
                                        const std::array<std::string, 3>& texts, dim3& out) {
  return read(from[0], name, texts[0], out.x) && read(from[1], name, texts[1], out.y) &&
         read(from[2], name, texts[2], out.z);
}

SWITCHYARD_COLD bool unfit_finder::read(const expression& from, const char* name, const std::string& text,
                                        std::uint32_t& out) {
  const integer_result value = from.evaluate(values_);
  if (value.why != fault::none) return refuse_fault(name, text, value.why);
  if (value.value < 0 || value.value > 0xffffffff)
    return refuse(std::string{name} + " would be " + std::to_string(value.value) + in_brackets(text));
  out = static_cast<std::uint32_t>(value.value);
  return true;
}

SWITCHYARD_COLD bool unfit_finder::refuse_fault(std::string name, std::string_view text, fault why) {
  if (!text.empty()) name += " \"" + std::string{text} + "\"";
  return refuse(std::move(name) + " " + std::string{to_string(why)});
}

SWITCHYARD_COLD std::string unfit_finder::in_brackets(std::string_view text) {
  return text.empty() ? std::string{} : " (\"" + std::string{text} + "\")";
}

}  // namespace detail

SWITCHYARD_COLD choice select_fitting(const selector& from, problem_view asked, unusable_flags unusable,
                                      const std::byte* arguments) {
  const padded_problem padded{*from.op, asked};
  const problem_view problem = padded.view();
  const auto is_fit = [&](const choice& chosen) {
    return chosen.variant == no_index ||
           detail::find_unfit(from, *from.candidates[chosen.variant].variant, problem, arguments).empty();
  };
  choice out = from.select(problem, unusable);
  if (is_fit(out)) return out;
  std::vector<std::atomic<bool>> left_out(from.candidates.size());
  for (std::size_t i = 0; i < unusable.size(); ++i)
    left_out[i].store(unusable[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  do {
    left_out[out.variant].store(true, std::memory_order_relaxed);
    out = from.select(problem, left_out);
  } while (!is_fit(out));
  return out;
}

}  // namespace v0
}  // namespace switchyard
