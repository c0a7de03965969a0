// The launch path without an operator's type: find or make the plan, bind the parameters, call the driver.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>
#include <switchyard/base/reclaimer.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/launching/plan.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

/// Device memory for a call's temporary buffers, aligned to 256 bytes. Without it the device gives it, in
/// stream order, for the time of the call.
struct workspace {
  void* address = nullptr;
  std::size_t bytes = 0;
};

/// A range of an axis, both ends included, for prepare().
struct axis_span {
  std::string_view axis;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class dispatcher_core final : public binding_user {
 public:
  /// Throws error when the operator's files cannot be read, or the device has none that run.
  dispatcher_core(const operator_description& op, binding_source& source, device where)
      : op_{op}, source_{source}, device_{std::move(where)}, driver_{device_.driver().get()} {
    source_.attach(op_, device_, *this);
  }
  dispatcher_core(const dispatcher_core&) = delete;
  dispatcher_core& operator=(const dispatcher_core&) = delete;
  /// No call may be under way.
  ~dispatcher_core() override {
    source_.detach(*this);
    delete current_.load(
        std::memory_order_relaxed);  // NOLINT(cppcoreguidelines-owning-memory): published pointer
  }

  /// Runs the operator. `check` says what is wrong with the arguments; it is asked for new problems only.
  template <std::size_t Count, class Check>
  void launch(const std::array<std::int64_t, Count>& problem, const void* arguments, stream where,
              workspace given, const Check& check) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    plan* const found = now->plans().find(hash(problem), problem);
    if (found != nullptr && found->direct != nullptr) [[likely]] {
      const planned_launch& only = *found->direct;
      pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bind writes what is read
      bind(only, reinterpret_cast<std::uintptr_t>(arguments), 0, pointers);
      const status result = driver_->launch(only.function, only.geometry, pointers.data(), where);
      if (result != 0) [[unlikely]]
        fail_launch(*found, 0, result, where);
      return;
    }
    launch_otherwise(*now, found, problem, arguments, where, given, check);
  }

  /// Makes sure that everything a problem needs is loaded, and keeps its plan.
  template <class Check>
  void prepare(problem_view problem, const Check& check) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    const std::uint64_t key = hash(problem);
    if (now->plans().find(key, problem) != nullptr) return;
    require_legal(check);
    std::unique_ptr<plan> fresh = now->make_plan(problem, key, loading::allowed);
    (void)publish(*now, fresh);
  }

  /// Loads every kernel that may be chosen when axes run over ranges: each problem is decided where there are
  /// at most 65,536, else a sample of them that is dense in ratio, and every problem that a table measured.
  void prepare(std::span<const std::int64_t> problem, std::span<const axis_span> ranges);

  [[nodiscard]] explanation explain(problem_view problem) {
    const reclaimer::guard guard{reclaimer_};
    return current_.load(std::memory_order_seq_cst)->explain(problem);
  }

  /// Bytes of workspace that a call of this problem takes.
  [[nodiscard]] std::size_t workspace_bytes(problem_view problem) {
    const reclaimer::guard guard{reclaimer_};
    binding* const now = current_.load(std::memory_order_seq_cst);
    const std::uint64_t key = hash(problem);
    if (const plan* found = now->plans().find(key, problem)) return found->workspace_bytes;
    return now->make_plan(problem, key, loading::allowed)->workspace_bytes;
  }

  [[nodiscard]] const device& where() const noexcept { return device_; }

  /// Takes a new binding into use. The problems that the old one served are decided and loaded first, so that
  /// traffic does not notice.
  void adopt(std::unique_ptr<binding> fresh) override {
    {
      const reclaimer::guard guard{reclaimer_};
      if (binding* const old = current_.load(std::memory_order_seq_cst)) {
        old->plans().for_each([&fresh](const plan& each) {
          try {
            auto again = fresh->make_plan(each.problem, each.hash, loading::allowed);
            delete fresh->plans().insert(again.release());  // NOLINT(cppcoreguidelines-owning-memory)
          } catch (const error&) {
            // The next call of this problem meets the error itself.
          }
        });
      }
    }
    binding* const old = current_.exchange(fresh.release(), std::memory_order_seq_cst);
    if (old != nullptr) {
      reclaimer_.retire(old, [](void* each) { delete static_cast<binding*>(each); });
    }
  }

 private:
  using pointer_array = std::array<void*, max_parameters>;

  static constexpr std::size_t most_waiting = 512;
  static constexpr std::size_t local_image_lines = 64;

  /// Writes the address of every parameter. `shift` moves those in the image to a copy of it.
  [[gnu::always_inline]] static void bind(const planned_launch& what, std::uintptr_t arguments,
                                          std::uintptr_t shift, pointer_array& out) noexcept {
    // Two at a time, in whatever vector registers there are: a third of the instructions of a plain loop.
    using two = std::uintptr_t __attribute__((vector_size(16)));
    const std::uintptr_t* from = what.offsets.data();
    void** to = out.data();
    const std::uintptr_t* const end = from + what.offsets.size();
    do {  // there is always a first eight
      two a;
      two b;
      two c;
      two d;
      __builtin_memcpy(&a, from, sizeof a);
      __builtin_memcpy(&b, from + 2, sizeof b);
      __builtin_memcpy(&c, from + 4, sizeof c);
      __builtin_memcpy(&d, from + 6, sizeof d);
      a += arguments;
      b += arguments;
      c += arguments;
      d += arguments;
      __builtin_memcpy(to, &a, sizeof a);
      __builtin_memcpy(to + 2, &b, sizeof b);
      __builtin_memcpy(to + 4, &c, sizeof c);
      __builtin_memcpy(to + 6, &d, sizeof d);
      from += 8;
      to += 8;
    } while (from != end);
    for (const fixed_parameter& each : what.fixed) {
      out[each.index] = reinterpret_cast<void*>(each.address + shift);
    }
  }

  template <std::size_t Count, class Check>
  [[gnu::noinline]] void launch_otherwise(binding& now, plan* found,
                                          const std::array<std::int64_t, Count>& problem,
                                          const void* arguments, stream where, workspace given,
                                          const Check& check) {
    if (found != nullptr && found->mapped != nullptr && launch_mapped(now, *found, arguments, where)) return;
    if (found == nullptr) [[unlikely]] {
      require_legal(check);
      return launch_new(now, problem, hash(problem), arguments, where, given);
    }
    launch_known(now, *found, arguments, where, given);
  }

  template <class Check>
  void require_legal(const Check& check) const {
    const std::string wrong = check();
    if (!wrong.empty()) throw call_error{error_code::invalid_argument, std::string{op_.name} + ": " + wrong};
  }

  void launch_known(binding& now, plan& found, const void* arguments, stream where, workspace given) {
    if (found.counted) {
      found.count.fetch_add(1, std::memory_order_relaxed);
      now.trace(found);
    }
    run(now, found, arguments, where, given);
  }

  void launch_new(binding& now, problem_view problem, std::uint64_t key, const void* arguments, stream where,
                  workspace given) {
    if (!driver_->owns(where)) fail_foreign();
    const loading may_load = driver_->capturing(where) ? loading::refused : loading::allowed;
    std::unique_ptr<plan> fresh = now.make_plan(problem, key, may_load);
    now.note(*fresh, 1);
    if (plan* const published = publish(now, fresh)) {
      run(now, *published, arguments, where, given);
    } else {
      run(now, *fresh, arguments, where, given);
    }
  }

  /// Puts a plan into the cache, or drops it for the same one that another thread put there. Null, with the
  /// plan left to the caller, when too many plans wait for a reader that stays long: memory stays bounded.
  [[nodiscard]] plan* publish(binding& now, std::unique_ptr<plan>& fresh) {
    if (reclaimer_.collect() > most_waiting) return nullptr;
    plan* displaced = nullptr;
    plan* published = nullptr;
    {
      const locked lock{mutex_};
      published = now.plans().find(fresh->hash, fresh->problem);
      if (published == nullptr) {
        published = fresh.release();
        displaced = now.plans().insert(published);
      }
    }
    if (displaced != nullptr) {
      now.note(*displaced, displaced->count.exchange(0, std::memory_order_relaxed));
      reclaimer_.retire(displaced, [](void* each) { delete static_cast<plan*>(each); });
    }
    return published;
  }

  /// Workspace from the caller, or from the device for as long as the object lives.
  class scratch {
   public:
    scratch(device_driver& driver, const operator_description& op, std::size_t bytes, workspace given,
            stream where)
        : driver_{driver}, where_{where}, address_{given.address} {
      if (bytes == 0) return;
      if (given.address == nullptr) {
        address_ = owned_ = driver.allocate(bytes, where);
        if (address_ != nullptr) return;
        if (!driver.owns(where)) fail_foreign(op, driver);
        throw driver_error{error_code::out_of_memory,
                           std::string{op.name} + ": the device has no " + std::to_string(bytes) +
                               " bytes for the workspace; free memory, or pass a workspace of your own"};
      }
      if (given.bytes < bytes || reinterpret_cast<std::uintptr_t>(given.address) % workspace_alignment != 0) {
        throw call_error{error_code::invalid_argument, std::string{op.name} + ": the workspace has " +
                                                           std::to_string(given.bytes) + " bytes; " +
                                                           std::to_string(bytes) + ", aligned to " +
                                                           std::to_string(workspace_alignment) +
                                                           ", are needed. workspace_bytes() tells how many"};
      }
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
      if (owned_ != nullptr) driver_.release(owned_, where_);
    }
    [[nodiscard]] std::byte* at(const workspace_buffer& buffer) const noexcept {
      return static_cast<std::byte*>(address_) + buffer.offset;
    }

   private:
    device_driver& driver_;
    stream where_;
    void* address_;
    void* owned_ = nullptr;
  };

  void run(binding& now, const plan& what, const void* arguments, stream where, workspace given) {
    const scratch memory{*driver_, op_, what.workspace_bytes, given, where};
    for (std::size_t i = 0; i < what.launches.size(); ++i) {
      const planned_launch& each = what.launches[i];
      if (each.is_empty) continue;
      const status result =
          each.is_fill ? driver_->fill(memory.at(what.workspace[each.fill_workspace]), each.fill_byte,
                                       what.workspace[each.fill_workspace].bytes, where)
                       : start(now, what, each, arguments, where, memory);
      if (result != 0) fail_launch(what, i, result, where);
    }
  }

  /// The encoded tensor maps of a launch: those that are kept, or those encoded for this call alone.
  struct map_room {
    const image_line* lines = nullptr;
    std::vector<image_line> own;
    [[nodiscard]] const image_line* at(std::size_t index) const noexcept { return lines + index * map_lines; }
  };
  static constexpr std::size_t map_lines = tensor_map_bytes / sizeof(image_line);

  [[nodiscard]] status start(binding& now, const plan& of, const planned_launch& what, const void* arguments,
                             stream where, const scratch& memory) {
    pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bind writes what is read
    const auto base = reinterpret_cast<std::uintptr_t>(arguments);
    const evaluation values{of.problem, now.rules().device.attributes, op_.fields,
                            static_cast<const std::byte*>(arguments)};
    map_room maps;
    if (!what.maps.empty()) {
      if (const status result = find_maps(now, of, what, values, maps); result != 0) return result;
    }
    if (what.late.empty() && what.late_grid == nullptr) {
      bind(what, base, 0, pointers);
      pass_maps(what, maps.lines, pointers);
      return driver_->launch(what.function, what.geometry, pointers.data(), where);
    }
    std::array<image_line, local_image_lines> local;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::vector<image_line> large;
    image_line* lines = local.data();
    if (what.image.size() > local.size()) {
      large.resize(what.image.size());
      lines = large.data();
    }
    auto* const image = reinterpret_cast<std::byte*>(lines);
    if (!what.image.empty())
      __builtin_memcpy(image, what.image.data(), what.image.size() * sizeof(image_line));
    for (const late_value& each : what.late) {
      write(now, of, each, values, image + each.offset, memory, maps);
    }
    bind(what, base,
         reinterpret_cast<std::uintptr_t>(image) - reinterpret_cast<std::uintptr_t>(what.image.data()),
         pointers);
    pass_maps(what, maps.lines, pointers);
    if (what.late_grid == nullptr)
      return driver_->launch(what.function, what.geometry, pointers.data(), where);
    launch_geometry geometry = what.geometry;
    const std::array<std::uint32_t*, 3> extents{&geometry.grid.x, &geometry.grid.y, &geometry.grid.z};
    bool empty = false;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t extent = value_of(now, of, (*what.late_grid)[i], values);
      if (!detail::planner::to_extent(extent, *extents[i])) {
        fail_value(now, of, "the grid would be " + std::to_string(extent));
      }
      empty = empty || extent == 0;
    }
    return empty ? 0 : driver_->launch(what.function, geometry, pointers.data(), where);
  }

  void write(const binding& now, const plan& of, const late_value& each, const evaluation& values,
             std::byte* to, const scratch& memory, const map_room& maps) const {
    switch (each.from) {
      case late_value::source::field:
        __builtin_memcpy(to, values.arguments + op_.fields[each.index].offset, size_of(each.kind));
        return;
      case late_value::source::integer: {
        const std::int64_t value = value_of(now, of, *each.value, values);
        if (!detail::fits(each.kind, value)) {
          fail_value(now, of,
                     "a parameter would be " + std::to_string(value) + ", which does not fit its type");
        }
        detail::store_integer(to, each.kind, value);
        return;
      }
      case late_value::source::real:
        detail::store_real(to, each.kind, each.value->evaluate_real(values));
        return;
      case late_value::source::workspace: {
        const void* address = memory.at(of.workspace[each.index]);
        __builtin_memcpy(to, &address, sizeof address);
        return;
      }
      case late_value::source::tensor_map:
        __builtin_memcpy(to, maps.at(each.index), tensor_map_bytes);
    }
  }

  static void pass_maps(const planned_launch& what, const image_line* maps, pointer_array& out) noexcept {
    for (const std::size_t parameter : what.map_parameters) {
      // The driver reads through the pointers, though their type allows more.
      if (parameter != no_parameter) out[parameter] = const_cast<image_line*>(maps);
      maps += map_lines;
    }
  }

  /// The one launch of a plan, with tensor maps that were kept. False where they were not.
  [[nodiscard, gnu::noinline]] bool launch_mapped(binding& now, const plan& of, const void* arguments,
                                                  stream where) {
    const planned_launch& what = *of.mapped;
    const auto* const base = static_cast<const std::byte*>(arguments);
    const encoded_maps* const found = now.tensor_maps().find(tensor_map_cache::hash(what, base), what, base);
    if (found == nullptr) return false;
    pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bind writes what is read
    bind(what, reinterpret_cast<std::uintptr_t>(arguments), 0, pointers);
    pass_maps(what, found->maps.data(), pointers);
    const status result = driver_->launch(what.function, what.geometry, pointers.data(), where);
    if (result != 0) [[unlikely]]
      fail_launch(of, 0, result, where);
    return true;
  }

  [[nodiscard]] status find_maps(binding& now, const plan& of, const planned_launch& what,
                                 const evaluation& values, map_room& out) {
    if (what.map_key.empty()) return encode(now, of, what, values, out);
    tensor_map_cache& cache = now.tensor_maps();
    const std::uint64_t hash = tensor_map_cache::hash(what, values.arguments);
    if (const encoded_maps* const found = cache.find(hash, what, values.arguments)) {
      out.lines = found->maps.data();
      return 0;
    }
    const status result = encode(now, of, what, values, out);
    std::vector<argument_part::bytes> key = tensor_map_cache::read_key(what, values.arguments);
    if (result != 0 || !cache.seen_before(hash, key) || reclaimer_.collect() > most_waiting) return result;
    auto fresh = std::make_unique<encoded_maps>(encoded_maps{what.map_owner, std::move(key), out.own});
    if (encoded_maps* const displaced = cache.insert(hash, fresh.release())) {
      reclaimer_.retire(displaced, [](void* each) { delete static_cast<encoded_maps*>(each); });
    }
    return result;
  }

  [[nodiscard]] status encode(const binding& now, const plan& of, const planned_launch& what,
                              const evaluation& values, map_room& out) const {
    out.own.resize(what.maps.size() * map_lines);
    out.lines = out.own.data();
    for (std::size_t i = 0; i < what.maps.size(); ++i) {
      tensor_map_request request = what.maps[i].known;
      detail::planner::visit_map(*what.maps[i].recipe, request, [&](const expression& value, auto& to) {
        if (value.reads_fields()) detail::planner::store(to, value_of(now, of, value, values));
      });
      const status result = driver_->encode(request, &out.own[i * map_lines]);
      if (result != 0) return result;
    }
    return 0;
  }

  [[nodiscard]] std::int64_t value_of(const binding& now, const plan& of, const expression& what,
                                      const evaluation& values) const {
    const integer_result result = what.evaluate(values);
    if (result.why != fault::none) fail_value(now, of, "an expression " + std::string{to_string(result.why)});
    return result.value;
  }

  [[noreturn, gnu::cold]] void fail_value(const binding& now, const plan& of, const std::string& what) const {
    throw call_error{error_code::evaluation_failed,
                     std::string{op_.name} + ": variant '" +
                         now.rules().candidates[of.chosen.variant].variant->id + "': " + what + " for " +
                         format_problem(op_, of.problem)};
  }

  [[noreturn, gnu::cold]] static void fail_foreign(const operator_description& op,
                                                   const device_driver& driver) {
    throw call_error{error_code::invalid_argument,
                     std::string{op.name} + ": the stream is of another device or context than the " +
                         driver.properties().name +
                         " that the dispatcher was made for: pass a stream of it, or make the dispatcher "
                         "without a device, so that it follows the stream"};
  }
  [[noreturn, gnu::cold]] void fail_foreign() const { fail_foreign(op_, *driver_); }

  [[noreturn, gnu::cold]] void fail_launch(const plan& of, std::size_t index, status result,
                                           stream where) const {
    if (!driver_->owns(where)) fail_foreign();
    const variant& what = *of.what;
    const auto& each = what.launches[index];
    const dim3& grid = of.launches[index].geometry.grid;
    throw driver_error{error_code::launch_failed,
                       std::string{op_.name} + ": variant '" + what.id + "': " +
                           (each.is_fill ? "filling a workspace"
                                         : "kernel '" + each.kernel + "' of " + each.blob + ", grid " +
                                               std::to_string(grid.x) + "x" + std::to_string(grid.y) + "x" +
                                               std::to_string(grid.z)) +
                           " on " + device_.properties().name + ": " + driver_->describe(result) + ", for " +
                           format_problem(op_, of.problem)};
  }

  const operator_description& op_;
  binding_source& source_;
  device device_;
  device_driver* driver_;
  std::atomic<binding*> current_{nullptr};
  mutex mutex_;
  reclaimer reclaimer_;
};

namespace detail {

/// At most `most` values of a range, equally far apart in ratio, its ends among them.
[[nodiscard]] inline std::vector<std::int64_t> sample_range(std::int64_t first, std::int64_t last,
                                                            std::size_t most) {
  std::vector<std::int64_t> out;
  const auto count = static_cast<std::uint64_t>(last - first) + 1;
  if (count <= most) {
    for (std::int64_t value = first; value <= last; ++value) out.push_back(value);
    return out;
  }
  const double low = __builtin_log2(static_cast<double>(first < 1 ? 1 : first));
  const double high = __builtin_log2(static_cast<double>(last));
  out.push_back(first);
  for (std::size_t i = 1; i + 1 < most; ++i) {
    const double at = low + (high - low) * static_cast<double>(i) / static_cast<double>(most - 1);
    const auto value = static_cast<std::int64_t>(__builtin_llround(__builtin_exp2(at)));
    if (value > out.back() && value < last) out.push_back(value);
  }
  out.push_back(last);
  return out;
}

}  // namespace detail

inline void dispatcher_core::prepare(std::span<const std::int64_t> problem,
                                     std::span<const axis_span> ranges) {
  constexpr std::size_t most = 65536;
  struct swept {
    std::uint32_t axis;
    std::vector<std::int64_t> values;
  };
  const reclaimer::guard guard{reclaimer_};
  binding& now = *current_.load(std::memory_order_seq_cst);
  std::vector<swept> axes;
  double problems = 1;
  for (const axis_span& range : ranges) {
    const std::uint32_t axis = find_axis(op_, range.axis);
    const bool known = axis < op_.axes.size();
    if (!known || range.first < 0 || range.last < range.first) {
      throw call_error{error_code::invalid_argument,
                       std::string{op_.name} + ": prepare: '" + std::string{range.axis} + "' from " +
                           std::to_string(range.first) + " to " + std::to_string(range.last) +
                           (known ? " is no range of sizes" : " is no axis of the operator")};
    }
    axes.push_back({axis, {range.first, range.last}});
    problems *= static_cast<double>(range.last - range.first) + 1;
  }
  std::size_t each_axis = most;
  const bool each_decided = problems <= static_cast<double>(most);
  if (!each_decided && !axes.empty()) {
    each_axis = static_cast<std::size_t>(__builtin_exp2(16.0 / static_cast<double>(axes.size())));
    if (each_axis < 2) each_axis = 2;
  }
  for (swept& each : axes) each.values = detail::sample_range(each.values[0], each.values[1], each_axis);

  std::vector<bool> done(now.rules().candidates.size());
  const auto decide = [&](problem_view at) {
    for (;;) {
      const choice chosen = now.select(at);
      if (chosen.variant == no_index) now.refuse(at);
      if (done[chosen.variant] || now.prepare(chosen.variant)) {
        done[chosen.variant] = true;
        return;
      }
    }
  };
  std::vector<std::int64_t> at(problem.begin(), problem.end());
  std::vector<std::size_t> digits(axes.size());
  for (bool more = true; more;) {
    for (std::size_t i = 0; i < axes.size(); ++i) at[axes[i].axis] = axes[i].values[digits[i]];
    decide(at);
    more = false;
    for (std::size_t i = 0; i < axes.size() && !more; ++i) {
      more = ++digits[i] < axes[i].values.size();
      if (!more) digits[i] = 0;
    }
  }
  if (each_decided) return;
  for (const bound_group& group : now.rules().groups) {
    if (!matches(group.type, problem)) continue;
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      at.assign(problem.begin(), problem.end());
      bool inside = true;
      for (std::size_t i = 0; i < group.axes.size(); ++i) {
        at[group.axes[i]] = group.at[row * group.axes.size() + i];
      }
      for (std::size_t i = 0; i < at.size(); ++i) {
        bool swept_here = false;
        for (const swept& each : axes) {
          if (each.axis != i) continue;
          swept_here = true;
          inside = inside && at[i] >= each.values.front() && at[i] <= each.values.back();
        }
        if (!swept_here) inside = inside && at[i] == problem[i];
      }
      if (inside) decide(at);
    }
  }
}

}  // namespace v0
}  // namespace switchyard
