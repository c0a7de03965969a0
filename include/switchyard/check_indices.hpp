// SPDX-License-Identifier: MIT
// Checks one call as checked mode checks all.
#pragma once

#include <switchyard/devices/stream.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/launching/call_checker.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// Throws what is wrong with a call's arguments and with the numbers in its tensors of indices, which are
/// read from a device in stream order. Waits for them; launches nothing, and needs no checked mode. Illegal
/// numbers are call_error as there: check_failed, on the CPU invalid_argument but for ids. Inside a capture
/// none are read.
///     check_indices(run, stream, softmax::call(x, out));
template <operator_type Operator>
void check_indices(dispatcher<Operator>& on, stream launch_stream, const typename Operator::arguments& call) {
  const problem_of<Operator> own = make_problem<Operator>(call);
  detail::call_checker{detail::dispatcher_access::find(on, launch_stream)}.check(
      own, &call, launch_stream, detail::dispatcher_access::check(on, call));
}

}  // namespace v0
}  // namespace switchyard
