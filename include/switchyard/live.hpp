// SPDX-License-Identifier: MIT
// Compares variants at real calls, in idle time or on a spare stream.
#pragma once

#include <string>
#include <vector>

#include <switchyard/devices/stream.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/launching/live_comparer.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tensors/result_tensor.hpp>

namespace switchyard {
inline namespace v0 {

/// Runs what serves a call and a runner-up on a stream, in turns, with results in memory of their own: the
/// call's are never written. Both must agree within bounds of the element type. The times are kept as
/// catalog::live() and write_live_tables() show them; a variant that is wrong leaves service; new tables that
/// are slower return: see canary_options.
///
/// Waits for the stream. All that the call names stays as it is until then: give a call that has just been
/// made, before its inputs are freed or overwritten, and a stream on which they are ready. Nothing of it is
/// read afterwards. It loads the runner-up and takes twice the results' memory meanwhile.
///
/// Throws as a call does. Where nothing can be compared, the outcome and its text say why.
///     compare_live(run, spare_stream, softmax::call(x, out));
template <operator_type Operator>
live_comparison compare_live(dispatcher<Operator>& on, stream spare, const typename Operator::arguments& call,
                             const live_compare_options& options = {}) {
  using arguments = typename Operator::arguments;
  const problem_of<Operator> own = make_problem<Operator>(call);
  std::vector<result_tensor> results;
  detail::comparison_request of;
  of.own = own;
  of.arguments = &call;
  of.unknown = find_results<Operator>(call, results);
  of.results = results;
  of.is_same_problem = [](const void* one, const void* other) {
    return make_problem<Operator>(*static_cast<const arguments*>(one)) ==
           make_problem<Operator>(*static_cast<const arguments*>(other));
  };
  of.illegal = detail::dispatcher_access::check(on, call);
  return detail::live_comparer{detail::dispatcher_access::find(on, spare), of, spare, options}.compare();
}

}  // namespace v0
}  // namespace switchyard
