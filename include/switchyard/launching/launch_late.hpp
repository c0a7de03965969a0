// Launches whose parameters depend on the single call: expressions over arguments, workspace addresses,
// tensor maps, grids. Their values are written into a copy of the plan's image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/reclaimer.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/launching/bind_parameters.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/launching/call_errors.hpp>
#include <switchyard/launching/parameter_image.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/launching/planner.hpp>
#include <switchyard/launching/tensor_map_cache.hpp>
#include <switchyard/launching/workspace.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Most objects that may wait for a reader before nothing more is cached: memory stays bounded.
inline constexpr std::size_t most_waiting = 512;

/// One call of one plan. The caller holds a guard of the reclaimer.
class late_call {
 public:
  late_call(binding& now, device_driver& driver, reclaimer& owner, const plan& of, const void* arguments,
            stream launch_stream, const scratch& memory)
      : op_{now.op()},
        driver_{driver},
        reclaimer_{owner},
        binding_{now},
        plan_{of},
        values_{of.problem, now.device().attributes, op_.fields, static_cast<const std::byte*>(arguments)},
        stream_{launch_stream},
        memory_{memory} {}

  /// Throws call_error evaluation_failed for a value that does not fit.
  [[nodiscard]] status start(const planned_launch& of) {
    pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): binding writes what is read
    const auto base = reinterpret_cast<std::uintptr_t>(values_.arguments);
    map_room maps;
    if (!of.maps.empty()) {
      if (const status result = find_maps(of, maps); result != 0) return result;
    }
    if (of.late.empty() && of.late_grid == nullptr) {
      bind_parameters(of, base, 0, pointers);
      bind_maps(of, maps.lines, pointers);
      return driver_.launch(of.function, of.geometry, pointers.data(), stream_);
    }
    std::array<image_line, local_image_lines> local;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::vector<image_line> large;
    image_line* lines = local.data();
    if (of.image.size() > local.size()) {
      large.resize(of.image.size());
      lines = large.data();
    }
    auto* const image = reinterpret_cast<std::byte*>(lines);
    if (!of.image.empty()) __builtin_memcpy(image, of.image.data(), of.image.size() * sizeof(image_line));
    for (const late_value& each : of.late) write(each, image + each.offset, maps);
    bind_parameters(
        of, base, reinterpret_cast<std::uintptr_t>(image) - reinterpret_cast<std::uintptr_t>(of.image.data()),
        pointers);
    bind_maps(of, maps.lines, pointers);
    if (of.late_grid == nullptr) return driver_.launch(of.function, of.geometry, pointers.data(), stream_);
    launch_geometry geometry = of.geometry;
    const std::array<std::uint32_t*, 3> extents{&geometry.grid.x, &geometry.grid.y, &geometry.grid.z};
    bool empty = false;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t extent = value_of((*of.late_grid)[i]);
      if (!planner::to_extent(extent, *extents[i]))
        fail_value(op_, plan_, "the grid would be " + std::to_string(extent));
      empty = empty || extent == 0;
    }
    return empty ? 0 : driver_.launch(of.function, geometry, pointers.data(), stream_);
  }

 private:
  static constexpr std::size_t local_image_lines = 64;

  /// The encoded tensor maps of a launch: those that are kept, or those encoded for this call alone.
  struct map_room {
    const image_line* lines = nullptr;
    std::vector<image_line> own;
    [[nodiscard]] const image_line* at(std::size_t index) const noexcept { return lines + index * map_lines; }
  };

  void write(const late_value& each, std::byte* to, const map_room& maps) const {
    switch (each.from) {
      case late_value::source::field:
        __builtin_memcpy(to, values_.arguments + op_.fields[each.index].offset, size_of(each.kind));
        return;
      case late_value::source::integer: {
        const std::int64_t value = value_of(*each.value);
        if (!fits(each.kind, value)) {
          fail_value(op_, plan_,
                     "a parameter would be " + std::to_string(value) + ", which does not fit its type");
        }
        store_integer(to, each.kind, value);
        return;
      }
      case late_value::source::real:
        store_real(to, each.kind, each.value->evaluate_real(values_));
        return;
      case late_value::source::workspace: {
        const void* address = memory_.at(plan_.workspace[each.index]);
        __builtin_memcpy(to, &address, sizeof address);
        return;
      }
      case late_value::source::tensor_map:
        __builtin_memcpy(to, maps.at(each.index), tensor_map_bytes);
    }
  }

  [[nodiscard]] status find_maps(const planned_launch& of, map_room& out) {
    if (of.map_key.empty()) return encode(of, out);
    const std::uint64_t hash = tensor_map_cache::hash(of, values_.arguments);
    tensor_map_cache& cache = binding_.tensor_maps();
    if (const encoded_maps* const found = cache.find(hash, of, values_.arguments)) {
      out.lines = found->maps.data();
      return 0;
    }
    const status result = encode(of, out);
    std::vector<argument_part::bytes> key = tensor_map_cache::read_key(of, values_.arguments);
    if (result != 0 || !cache.seen_before(hash, key) || reclaimer_.collect() > most_waiting) return result;
    auto fresh = std::make_unique<encoded_maps>(encoded_maps{of.map_owner, std::move(key), out.own});
    if (encoded_maps* const displaced = cache.insert(hash, fresh.release())) {
      reclaimer_.retire(displaced, [](void* each) { delete static_cast<encoded_maps*>(each); });
    }
    return result;
  }

  [[nodiscard]] status encode(const planned_launch& of, map_room& out) const {
    out.own.resize(of.maps.size() * map_lines);
    out.lines = out.own.data();
    for (std::size_t i = 0; i < of.maps.size(); ++i) {
      tensor_map_request request = of.maps[i].known;
      planner::visit_map(*of.maps[i].recipe, request, [&](const expression& value, auto& to) {
        if (value.reads_fields()) planner::store(to, value_of(value));
      });
      const status result = driver_.encode(request, &out.own[i * map_lines]);
      if (result != 0) return result;
    }
    return 0;
  }

  [[nodiscard]] std::int64_t value_of(const expression& value) const {
    const integer_result result = value.evaluate(values_);
    if (result.why != fault::none)
      fail_value(op_, plan_, "an expression " + std::string{to_string(result.why)});
    return result.value;
  }

  const operator_description& op_;
  device_driver& driver_;
  reclaimer& reclaimer_;
  binding& binding_;
  const plan& plan_;
  evaluation values_;
  stream stream_;
  const scratch& memory_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
