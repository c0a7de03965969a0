// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "command.hpp"
#include "explain/explained_call.hpp"

namespace sy = switchyard;

namespace tool {

stated_problem read_problem(const known_operator& known, const std::vector<std::string>& words) {
  const sy::operator_description& op = *known.description;
  stated_problem out;
  out.values.resize(op.axes.size());
  std::vector<bool> given(op.axes.size());
  for (const std::string& word : words) {
    const axis_word named = require_axis_word(op, word);
    out.values.resize(op.axes.size());  // a word may add an axis
    given.resize(op.axes.size());
    if (given[named.axis]) {
      throw usage_error{"axis '" + std::string{op.axes[named.axis].name} +
                        "' is given twice, the second time in '" + word + "'; give one value"};
    }
    given[named.axis] = true;
    out.values[named.axis] = named.value;
  }
  const std::string missing = fill_defaults(known, out.values, given, &out.assumed);
  if (!missing.empty()) {
    throw usage_error{"explain " + std::string{op.name} + ": these must be given as axis=value: " + missing};
  }
  return out;
}

}  // namespace tool
