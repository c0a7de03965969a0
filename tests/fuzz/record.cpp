// SPDX-License-Identifier: MIT
// Arbitrary bytes as a line of a recording, and as the text of a file of problems; what is taken of it can be
// written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <switchyard/base/text.hpp>

#include "examples/switchyard/operators.hpp"
#include "examples/switchyard/record_line.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace text = switchyard::text;
  try {
    const tool::record_line read = tool::parse_record_line({reinterpret_cast<const char*>(data), size});
    require(read.count > 0);
    require(text::find_control(read.problem.operator_name).empty() &&
            text::find_control(read.problem.device).empty());
    const std::string again = R"({"operator":)" + text::quote_json(read.problem.operator_name) +
                              R"(,"device":)" + text::quote_json(read.problem.device) + R"(,"problem":)" +
                              read.problem.problem + R"(,"count":)" + std::to_string(read.count) + "}";
    const tool::record_line second = tool::parse_record_line(again);
    require(second.problem == read.problem && second.count == read.count);
  } catch (const tool::bad_line& problem) {
    require(!std::string_view{problem.what()}.empty());
  }
  return 0;
}
