// SPDX-License-Identifier: MIT
// Arbitrary bytes as a file of problems: whatever is taken of it is a problem that a worker can be asked for.
#include "examples/switchyard/tune/problems.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "examples/switchyard/command.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace sy = switchyard;
  for (const char* const name : {"softmax", "attention_forward"}) {
    const sy::operator_description& op = *tool::find_operator(name)->description;
    tool::problem_list list{op};
    try {
      list.add_lines({reinterpret_cast<const char*>(data), size}, "fuzz/problems.jsonl");
      list.finish();
    } catch (const tool::usage_error& problem) {
      require(std::string_view{problem.what()}.size() < 2000);
    }
    for (const tool::tuning_problem& problem : list.problems()) {
      require(problem.weight > 0 && !problem.text(op).empty());
      for (const auto& [axis, value] : problem.axes) {
        require(axis < op.axes.size());
        require(value >= 0 || op.axes[axis].kind == sy::axis_kind::type);
      }
    }
  }
  return 0;
}
