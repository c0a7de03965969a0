// SPDX-License-Identifier: MIT
// The text of lists and recordings of problems: lines, words, and the ranges of axes' values in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/operator.hpp>

namespace tool {

/// The most problems that a run measures.
constexpr std::size_t max_problems = 20'000;

struct axis_values {
  std::uint32_t axis;
  std::vector<std::int64_t> values;
};

/// "rows=1,4,128..8192*2". Throws usage_error.
[[nodiscard]] axis_values parse_word(const switchyard::operator_description& op, const std::string& word);

/// Calls `visit(line number, line)` for every line of a recording that is not blank.
void for_each_line(std::string_view text, const std::function<void(std::size_t, std::string_view)>& visit);

/// The integer that is one value of a word. Throws usage_error.
[[nodiscard]] std::int64_t require_integer(const std::string& text, const std::string& word);

/// Whether a file is a list; the lines of a recording are JSON objects.
[[nodiscard]] bool is_list(std::string_view text);

/// Whether problems may be called so often. Sums over a recording stay finite.
[[nodiscard]] bool is_number_of_calls(double value);

/// The number of a word such as "calls=100". Throws usage_error.
[[nodiscard]] double number_of_calls(const std::string& word);

/// Calls `visit(words)` for every entry of a list. The words are the operator, the axes, and how often the
/// problem is called. Throws usage_error, which names file and line, also of what `visit` throws.
void for_each_entry(std::string_view list, const std::string& path,
                    const std::function<void(const std::vector<std::string>&)>& visit);

}  // namespace tool
