// SPDX-License-Identifier: MIT
// The bodies of call_errors.hpp.
#pragma once

#include <cstddef>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dim3.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/plans/call_errors.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD void fail_foreign(const operator_description& op, const device_driver& driver) {
  throw call_error{error_code::invalid_argument,
                   std::string{op.name} + ": the stream is of another device or context than the " +
                       driver.properties().name +
                       " that the dispatcher was made for: pass a stream of it, or make the dispatcher "
                       "without a device, so that it follows the stream"};
}

SWITCHYARD_COLD void fail_illegal(const operator_description& op, problem_view problem,
                                  const std::string& wrong) {
  throw call_error{error_code::invalid_argument,
                   std::string{op.name} + ": " + wrong + "; called with " + format_problem(op, problem)};
}

SWITCHYARD_COLD void fail_checked(const operator_description& op, problem_view problem,
                                  const std::string& wrong) {
  throw call_error{error_code::check_failed,
                   std::string{op.name} + ": " + wrong + "; called with " + format_problem(op, problem)};
}

SWITCHYARD_COLD void fail_unprepared(const operator_description& op, problem_view problem,
                                     const std::string& why) {
  throw call_error{error_code::not_prepared,
                   std::string{op.name} + ": the problem " + why +
                       ", and the sealed catalog refuses such calls. Call prepare() "
                       "with it before seal(), or tune it; called with " +
                       format_problem(op, problem)};
}

SWITCHYARD_COLD void fail_value(const operator_description& op, const plan& of, const std::string& message) {
  throw call_error{error_code::evaluation_failed, std::string{op.name} + ": variant '" + of.selected->id +
                                                      "': " + message + " for " +
                                                      format_problem(op, of.problem.own())};
}

SWITCHYARD_COLD void fail_launch(const operator_description& op, const device_driver& driver, const plan& of,
                                 std::size_t index, status result, stream launch_stream) {
  if (!driver.owns(launch_stream)) fail_foreign(op, driver);
  const launch& failed = of.selected->launches[index];
  const dim3& grid = of.launches[index].geometry.grid;
  throw driver_error{error_code::launch_failed,
                     std::string{op.name} + ": variant '" + of.selected->id + "': " +
                         (failed.is_fill ? "filling a workspace"
                                         : "kernel '" + failed.kernel + "' of " + failed.blob + ", grid " +
                                               std::to_string(grid.x) + "x" + std::to_string(grid.y) + "x" +
                                               std::to_string(grid.z)) +
                         " on " + driver.properties().name + ": " + driver.describe(result) + ", for " +
                         format_problem(op, of.problem.own())};
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
