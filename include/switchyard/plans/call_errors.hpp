// SPDX-License-Identifier: MIT
// The errors of a call that cannot be launched. Text is made only when one is thrown.
#pragma once

#include <cstddef>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/plans/plan.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// The stream is not of the dispatcher's device.
[[noreturn, gnu::cold]] void fail_foreign(const operator_description& op, const device_driver& driver);

/// The operator's check refused a call. The problem says what the call had, where `wrong` says only what it
/// must have.
[[noreturn, gnu::cold]] void fail_illegal(const operator_description& op, problem_view problem,
                                          const std::string& wrong);

/// Checked mode refuses a call.
[[noreturn, gnu::cold]] void fail_checked(const operator_description& op, problem_view problem,
                                          const std::string& wrong);

/// The call was not prepared, and the sealed catalog refuses it. `why`: "is new".
[[noreturn, gnu::cold]] void fail_unprepared(const operator_description& op, problem_view problem,
                                             const std::string& why);

/// A value of the call does not fit its parameter or its grid.
[[noreturn, gnu::cold]] void fail_value(const operator_description& op, const plan& of,
                                        const std::string& message);

/// The driver did not start launch `index` of a plan.
[[noreturn, gnu::cold]] void fail_launch(const operator_description& op, const device_driver& driver,
                                         const plan& of, std::size_t index, status result,
                                         stream launch_stream);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/plans/call_errors_impl.hpp>
#endif
