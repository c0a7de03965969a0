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

/// What a run measures at most.
constexpr std::size_t max_problems = 20'000;

struct axis_values {
  std::uint32_t axis;
  std::vector<std::int64_t> values;
};

/// "rows=1,4,128..8192*2". Throws usage_error.
[[nodiscard]] axis_values parse_word(const switchyard::operator_description& op, const std::string& word);

/// Calls `each(line number, line)` for every line of a recording that is not blank.
void for_each_line(std::string_view text, const std::function<void(std::size_t, std::string_view)>& visit);

/// The integer that is one value of a word. Throws usage_error.
[[nodiscard]] std::int64_t require_integer(const std::string& text, const std::string& word);

/// Lists are told from recordings, whose lines are JSON objects.
[[nodiscard]] bool is_list(std::string_view text);

/// Of a word such as "calls=100". Throws usage_error.
[[nodiscard]] double number_of_calls(const std::string& word);

/// Visits the entries of a list: the number of the line, and its words: the operator, those of axes, and how
/// often it is called. Throws usage_error.
void for_each_entry(std::string_view list, const std::string& path,
                    const std::function<void(std::size_t, const std::vector<std::string>&)>& visit);

}  // namespace tool
