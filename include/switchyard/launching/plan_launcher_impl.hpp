// SPDX-License-Identifier: MIT
// The bodies of plan_launcher.hpp. A repeated call runs them, and none of them was ever inlined: in the
// library they cost a program nothing to compile, and a call nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/per_call_launch.hpp>
#include <switchyard/launching/plan_launcher.hpp>
#include <switchyard/observing/seal.hpp>
#include <switchyard/parameters/launch_layout.hpp>
#include <switchyard/parameters/parameter_block.hpp>
#include <switchyard/parameters/per_call_program.hpp>
#include <switchyard/plans/bind_parameters.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/plans/workspace.hpp>
#include <switchyard/serving/operator_state.hpp>

namespace switchyard {
inline namespace v0 {

[[gnu::noinline]] SWITCHYARD_FUNCTION void plan_launcher::launch_direct(const plan& of, const void* arguments,
                                                                        stream launch_stream) {
  detail::pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
  detail::bind_parameters(*of.single, arguments, of.single->parameter_block, pointers);
  start_single(of, pointers, launch_stream);
}

[[gnu::noinline]] SWITCHYARD_FUNCTION void plan_launcher::launch_kept(operator_state& now, const plan& of,
                                                                      const void* arguments,
                                                                      stream launch_stream) {
  const planned_launch& only = *of.single;
  detail::pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
  if (only.bind_kept(now.parameter_blocks(), only, static_cast<const std::byte*>(arguments), nullptr,
                     pointers.data()) == nullptr) [[unlikely]] {
    return launch_interpreted(now, of, arguments, launch_stream);
  }
  start_single(of, pointers, launch_stream);
}

[[gnu::noinline]] SWITCHYARD_FUNCTION void plan_launcher::launch_compiled(operator_state& now, const plan& of,
                                                                          const void* arguments,
                                                                          stream launch_stream) {
  const planned_launch& only = *of.single;
  detail::local_block local;
  parameter_line* const parameter_block = local.data();
  detail::pointer_array pointers;  // NOLINT(cppcoreguidelines-pro-type-member-init): bound before it is read
  only.bind_copy(*only.layout, reinterpret_cast<std::uintptr_t>(arguments), only.parameter_block,
                 parameter_block, pointers.data());
  bool all_fit = true;
  detail::run_per_call(
      *only.per_call, static_cast<const std::byte*>(arguments), reinterpret_cast<std::byte*>(parameter_block),
      [](std::uint32_t) -> const void* { return nullptr; },  // it has no workspace
      [&all_fit](std::uint32_t) { all_fit = false; });
  if (!all_fit) [[unlikely]]
    return launch_interpreted(now, of, arguments, launch_stream);
  start_single(of, pointers, launch_stream);
}

[[gnu::noinline]] SWITCHYARD_FUNCTION void plan_launcher::launch_interpreted(operator_state& now,
                                                                             const plan& of,
                                                                             const void* arguments,
                                                                             stream launch_stream) {
  try {
    detail::local_block local;
    const detail::per_call_launch call{now, *driver_, owner_, of, arguments, launch_stream, nullptr};
    const parameter_line* parameter_block = nullptr;
    const status result = call.start(*of.single, local, parameter_block);
    if (result != 0) [[unlikely]]
      fail_only_launch(of, result, launch_stream);
  } catch (const call_error& problem) {
    if (problem.code() != error_code::evaluation_failed) throw;
    run_without(now, of, problem, arguments, launch_stream, {});
  }
}

[[gnu::noinline]] SWITCHYARD_COLD void plan_launcher::launch_again(const plan& of, status refused,
                                                                   detail::pointer_array& parameters,
                                                                   stream launch_stream) {
  const planned_launch& only = *of.single;
  const status result =
      driver_->launch_again(refused, only.function, only.geometry, parameters.data(), launch_stream);
  if (result != 0) fail_only_launch(of, result, launch_stream);
}

SWITCHYARD_COLD void plan_launcher::fail_only_launch(const plan& of, status result,
                                                     stream launch_stream) const {
  try {
    detail::fail_launch(op_, *driver_, of, 0, result, launch_stream);
  } catch (const error& problem) {
    of.kernels->count(problem.code());
    throw;
  }
}

SWITCHYARD_FUNCTION loading plan_launcher::may_load(stream launch_stream, bool is_sealed) const {
  if (driver_->capturing(launch_stream)) return loading::refused;
  return is_sealed ? loading::sealed : loading::allowed;
}

SWITCHYARD_FUNCTION void plan_launcher::run(operator_state& now, const plan& of, const void* arguments,
                                            stream launch_stream, const workspace& given,
                                            const std::vector<std::uint32_t>* passed_over) {
  const planned_launch* started = nullptr;
  try {
    const detail::scratch memory{*memory_, op_, of.workspace_bytes, given, launch_stream};
    detail::local_block local;
    const parameter_line* parameter_block = nullptr;
    for (std::size_t i = 0; i < of.launches.size(); ++i) {
      const planned_launch& launch = of.launches[i];
      if (launch.is_empty) continue;
      const status result =
          launch.is_fill
              ? driver_->fill(memory.at(of.workspace[launch.fill_workspace]), launch.fill_byte,
                              of.workspace[launch.fill_workspace].bytes, launch_stream)
              : detail::per_call_launch{now, *driver_, owner_, of, arguments, launch_stream, &memory}.start(
                    launch, local, parameter_block);
      if (result != 0) detail::fail_launch(op_, *driver_, of, i, result, launch_stream);
      if (!launch.is_fill) started = &launch;
    }
  } catch (const call_error& problem) {
    const bool is_too_small = given.address != nullptr && given.bytes < of.workspace_bytes;
    if (is_too_small) return run_within(now, of, arguments, launch_stream, given, passed_over);
    // A kernel that was started may have written results that are inputs as well.
    if (problem.code() != error_code::evaluation_failed || started != nullptr) {
      of.kernels->count(problem.code());
      throw;
    }
    run_without(now, of, problem, arguments, launch_stream, given, passed_over);
  } catch (const driver_error& problem) {
    of.kernels->count(problem.code());
    throw;
  }
}

[[gnu::noinline]] SWITCHYARD_COLD void plan_launcher::run_within(
    operator_state& now, const plan& of, const void* arguments, stream launch_stream, const workspace& given,
    const std::vector<std::uint32_t>* passed_over) {
  constexpr std::size_t max_kept = 8;
  std::size_t kept = 0;
  // What was tried for this call is of no other's concern.
  for (const plan* inner = of.within.load(std::memory_order_acquire);
       inner != nullptr && passed_over == nullptr; inner = inner->within.load(std::memory_order_acquire)) {
    if (inner->workspace_bytes <= given.bytes && given.bytes <= inner->max_workspace)
      return run(now, *inner, arguments, launch_stream, given);
    ++kept;
  }
  const bool is_sealed = now.sealed() != nullptr && now.sealed()->is_closed() &&
                         now.sealed()->rules().load == seal_action::refuse;
  std::unique_ptr<plan> fresh =
      of.kernels->make_plan_within(of, given.bytes, may_load(launch_stream, is_sealed), passed_over);
  if (fresh == nullptr) {
    of.kernels->count(error_code::invalid_argument);
    detail::fail_workspace(op_, given.bytes,
                           passed_over == nullptr ? of.kernels->least_workspace(of) : of.workspace_bytes);
  }
  fresh->max_workspace = given.bytes;
  if (passed_over != nullptr || kept >= max_kept || fresh->is_fallback)
    return run(now, *fresh, arguments, launch_stream, given, passed_over);
  // At the list's end: whoever reads it meets each plan once.
  plan* const added = fresh.get();
  plan* expected = nullptr;
  std::atomic<plan*>* slot = &of.within;
  while (!slot->compare_exchange_weak(expected, added, std::memory_order_acq_rel)) {
    if (expected == nullptr) continue;
    slot = &expected->within;
    expected = nullptr;
  }
  (void)fresh.release();
  run(now, *added, arguments, launch_stream, given);
}

[[gnu::noinline]] SWITCHYARD_COLD void plan_launcher::run_without(operator_state& now, const plan& unfit,
                                                                  const call_error& problem,
                                                                  const void* arguments, stream launch_stream,
                                                                  const workspace& given,
                                                                  const std::vector<std::uint32_t>* before) {
  std::vector<std::uint32_t> passed_over;
  if (before != nullptr) passed_over = *before;
  passed_over.push_back(unfit.chosen.variant);
  std::unique_ptr<plan> next;
  try {
    next = unfit.kernels->make_plan_without(passed_over, unfit, problem, may_load(launch_stream));
  } catch (const call_error& nothing_left) {
    unfit.kernels->count(problem.code());
    if (nothing_left.code() != error_code::no_variant) throw;
    throw call_error{problem};
  }
  run(now, *next, arguments, launch_stream, given, &passed_over);
}

}  // namespace v0
}  // namespace switchyard
