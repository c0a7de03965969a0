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
#include <switchyard/launching/launch_layout.hpp>
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
            stream launch_stream, const scratch* memory)
      : driver_{driver},
        reclaimer_{owner},
        binding_{now},
        plan_{of},
        arguments_{static_cast<const std::byte*>(arguments)},
        stream_{launch_stream},
        memory_{memory} {}

  /// `local` takes the image with its late values; a plan's launches are started in their order, with the
  /// same one. Throws call_error evaluation_failed for a value that does not fit.
  [[nodiscard, gnu::always_inline]] inline status start(const planned_launch& of, local_image& local) const {
    pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): binding writes what is read
    if (!of.has_maps()) return start(of, nullptr, local, pointers);
    if (const image_line* const maps = find_maps(of)) return start(of, maps, local, pointers);
    return apart().start_encoded(of, local, pointers);
  }

 private:
  /// A copy, for functions that are not inlined: what calls them has this one in registers.
  [[nodiscard, gnu::always_inline]] inline late_call apart() const noexcept { return *this; }

  [[nodiscard, gnu::noinline]] status start_encoded(const planned_launch& of, local_image& local,
                                                    pointer_array& pointers) const {
    std::vector<image_line> own;
    if (const status result = encode_maps(of, own); result != 0) return result;
    return start(of, own.data(), local, pointers);
  }

  [[nodiscard, gnu::always_inline]] inline status start(const planned_launch& of, const image_line* maps,
                                                        local_image& local, pointer_array& pointers) const {
    if (of.late == nullptr) {
      bind_parameters(of, arguments_, of.shares_image ? local.data() : of.image, pointers);
      bind_maps(of, maps, pointers);
      return launch(of, pointers);
    }
    const std::size_t lines = of.layout->image.size();
    if (lines > local_image_lines) [[unlikely]]
      return apart().start_large(of, maps, pointers);
    return start_with(of, maps, local.data(), pointers);
  }

  [[nodiscard, gnu::always_inline]] inline status start_with(const planned_launch& of, const image_line* maps,
                                                             image_line* image,
                                                             pointer_array& pointers) const {
    of.bind_copy(*of.layout, reinterpret_cast<std::uintptr_t>(arguments_), of.image, image, pointers.data());
    auto* const bytes = reinterpret_cast<std::byte*>(image);
    // Read here: behind each write into the image it would be loaded again.
    const workspace_buffer* const buffers = plan_.workspace.data();
    const scratch* const memory = memory_;
    run_late(
        *of.late, arguments_, bytes,
        [buffers, memory](std::uint32_t buffer) { return memory->at(buffers[buffer]); },
        [&](std::uint32_t index)
            __attribute__((always_inline)) { apart().interpret(of, index, bytes, maps); });
    if (maps != nullptr) bind_maps(of, maps, pointers);
    return launch(of, pointers);
  }

  [[nodiscard, gnu::noinline]] status start_large(const planned_launch& of, const image_line* maps,
                                                  pointer_array& pointers) const {
    std::vector<image_line> image(of.layout->image.size());
    return start_with(of, maps, image.data(), pointers);
  }

  [[nodiscard, gnu::always_inline]] inline status launch(const planned_launch& of,
                                                         pointer_array& pointers) const {
    if (of.late_grid != nullptr) [[unlikely]]
      return apart().launch_late_grid(of, pointers);
    return driver_.launch(of.function, of.geometry, pointers.data(), stream_);
  }

  [[nodiscard, gnu::noinline]] status launch_late_grid(const planned_launch& of,
                                                       pointer_array& pointers) const {
    const evaluation values = all_values();
    launch_geometry geometry = of.geometry;
    const std::array<std::uint32_t*, 3> extents{&geometry.grid.x, &geometry.grid.y, &geometry.grid.z};
    bool empty = false;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t extent = value_of((*of.late_grid)[i], values);
      if (!planner::to_extent(extent, *extents[i]))
        fail_value(op(), plan_, "the grid would be " + std::to_string(extent));
      empty = empty || extent == 0;
    }
    return empty ? 0 : driver_.launch(of.function, geometry, pointers.data(), stream_);
  }

  [[nodiscard]] const operator_description& op() const noexcept { return binding_.op(); }
  [[nodiscard]] evaluation all_values() const noexcept {
    return {plan_.problem, binding_.device().attributes, op().fields, arguments_};
  }

  [[gnu::noinline]] void interpret(const planned_launch& of, std::uint32_t index, std::byte* image,
                                   const image_line* maps) const {
    const late_value& each = of.layout->late[index];
    std::byte* const to = image + each.offset;
    switch (each.from) {
      case late_value::source::field:  // these need no interpreter
      case late_value::source::workspace:
        return;
      case late_value::source::integer: {
        const std::int64_t value = value_of(of.late->values[index], all_values());
        if (!fits(each.kind, value)) {
          fail_value(op(), plan_,
                     "a parameter would be " + std::to_string(value) + ", which does not fit its type");
        }
        store_integer(to, each.kind, value);
        return;
      }
      case late_value::source::real:
        store_real(to, each.kind, each.value->evaluate_real(all_values()));
        return;
      case late_value::source::tensor_map:
        __builtin_memcpy(to, maps + each.index * map_lines, tensor_map_bytes);
    }
  }

  /// The kept maps of a launch, or null.
  [[nodiscard]] const image_line* find_maps(const planned_launch& of) const {
    if (of.layout->map_key.empty()) return nullptr;
    const encoded_maps* const found =
        binding_.tensor_maps().find(tensor_map_cache::hash(of, arguments_), of, arguments_);
    return found != nullptr ? found->maps.data() : nullptr;
  }

  /// Encodes the maps of a launch for this call, and keeps them where the same were asked for before.
  [[nodiscard, gnu::noinline]] status encode_maps(const planned_launch& of,
                                                  std::vector<image_line>& own) const {
    const status result = encode(of, own);
    if (result != 0 || of.layout->map_key.empty()) return result;
    const std::uint64_t hash = tensor_map_cache::hash(of, arguments_);
    tensor_map_cache& cache = binding_.tensor_maps();
    std::vector<argument_part::bytes> key = tensor_map_cache::read_key(of, arguments_);
    if (!cache.seen_before(hash, key) || reclaimer_.collect() > most_waiting) return result;
    auto fresh = std::make_unique<encoded_maps>(encoded_maps{of.map_owner, std::move(key), own});
    if (encoded_maps* const displaced = cache.insert(hash, fresh.release())) {
      reclaimer_.retire(displaced, [](void* each) { delete static_cast<encoded_maps*>(each); });
    }
    return result;
  }

  [[nodiscard]] status encode(const planned_launch& of, std::vector<image_line>& own) const {
    const evaluation values = all_values();
    own.resize(of.maps.size() * map_lines);
    for (std::size_t i = 0; i < of.maps.size(); ++i) {
      tensor_map_request request = of.maps[i].known;
      planner::visit_map(*of.maps[i].recipe, request, [&](const expression& value, auto& to) {
        if (value.reads_fields()) planner::store(to, value_of(value, values));
      });
      const status result = driver_.encode(request, &own[i * map_lines]);
      if (result != 0) return result;
    }
    return 0;
  }

  [[nodiscard]] std::int64_t value_of(const expression& value, const evaluation& values) const {
    const integer_result result = value.evaluate(values);
    if (result.why != fault::none)
      fail_value(op(), plan_, "an expression " + std::string{to_string(result.why)});
    return result.value;
  }

  device_driver& driver_;
  reclaimer& reclaimer_;
  binding& binding_;
  const plan& plan_;
  const std::byte* arguments_;
  stream stream_;
  const scratch* memory_;  // null where the plan has no workspace
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
