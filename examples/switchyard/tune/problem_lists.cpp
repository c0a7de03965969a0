// SPDX-License-Identifier: MIT
#include "tune/problem_lists.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

constexpr std::string_view calls_word = "calls=";

}  // namespace

std::int64_t require_integer(const std::string& text, const std::string& word) {
  std::int64_t value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || stop != text.data() + text.size() || text.empty()) {
    throw usage_error{"in '" + word + "', '" + text +
                      "' is not an integer; a range is first..last*factor or first..last+step"};
  }
  return value;
}

namespace {

/// "128..8192*2": 128, 256, ... and the last value, even where the factor steps over it.
void add_range(const std::string& text, const std::string& word, std::vector<std::int64_t>& out) {
  const std::size_t dots = text.find("..");
  const std::size_t sign = text.find_first_of("*+", dots + 2);
  if (sign == std::string::npos) {
    throw usage_error{"in '" + word + "', the range '" + text +
                      "' needs a step: first..last*factor or first..last+step"};
  }
  const std::int64_t first = require_integer(text.substr(0, dots), word);
  const std::int64_t last = require_integer(text.substr(dots + 2, sign - dots - 2), word);
  if (first > last) throw usage_error{"in '" + word + "', the range '" + text + "' ends before it begins"};
  const std::string by = text.substr(sign + 1);
  std::vector<std::int64_t> values;
  if (text[sign] == '+') {
    const std::int64_t step = require_integer(by, word);
    if (step < 1) throw usage_error{"in '" + word + "', the step must be at least 1"};
    for (std::int64_t at = first; at < last && values.size() <= max_problems; at += step)
      values.push_back(at);
  } else {
    char* stop = nullptr;
    const double factor = std::strtod(by.c_str(), &stop);
    if (by.empty() || *stop != '\0' || !(factor > 1)) {
      throw usage_error{"in '" + word + "', the factor must be a number above 1, got '" + by + "'"};
    }
    if (first < 1) throw usage_error{"in '" + word + "', a range with a factor begins at 1 or more"};
    auto at = static_cast<double>(first);
    while (at < static_cast<double>(last) - 0.5) {
      const auto value = static_cast<std::int64_t>(std::llround(at));
      if (values.empty() || value != values.back()) values.push_back(value);
      if (values.size() > max_problems) break;
      at *= factor;
    }
  }
  values.push_back(last);
  out.insert(out.end(), values.begin(), values.end());
}

[[nodiscard]] std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = line.find_first_not_of(" \t\r"); at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return out;
}

}  // namespace

axis_values parse_word(const sy::operator_description& op, const std::string& word) {
  const std::size_t equals = word.rfind('=');  // a condition on arguments has others before
  if (equals == std::string::npos || equals == 0) {
    throw usage_error{"expected axis=value,value... or axis=first..last*factor, got '" + word + "'"};
  }
  axis_values out{require_axis(op, word.substr(0, equals)), {}};
  for (std::size_t begin = equals + 1; begin <= word.size();) {
    const std::size_t end = std::min(word.find(',', begin), word.size());
    const std::string text = word.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t before = out.values.size();
    if (text.find("..") != std::string::npos) {
      add_range(text, word, out.values);
      if (out.values.back() < 0 || out.values[before] < 0) {
        std::string wrong = "in '";
        wrong.append(word).append("', the range '").append(text);
        throw usage_error{wrong.append("' has negative values; a size is 0 or more")};
      }
    } else {
      out.values.push_back(require_value(op.axes[out.axis], text));
    }
  }
  std::vector<std::int64_t> once;
  for (const std::int64_t value : out.values) {
    if (std::find(once.begin(), once.end(), value) == once.end()) once.push_back(value);
  }
  out.values = std::move(once);
  return out;
}

void for_each_line(std::string_view text, const std::function<void(std::size_t, std::string_view)>& visit) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) visit(number, line);
  }
}

bool is_list(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{';
}

bool is_number_of_calls(double value) {
  return value > 0 && value <= 1e20;
}

double number_of_calls(const std::string& word) {
  char* stop = nullptr;
  const double out = std::strtod(word.c_str() + calls_word.size(), &stop);
  if (*stop != '\0' || !is_number_of_calls(out))
    throw usage_error{"expected calls=NUMBER above 0, at most 1e20, got '" + word + "'"};
  return out;
}

void for_each_entry(std::string_view list, const std::string& path,
                    const std::function<void(const std::vector<std::string>&)>& visit) {
  std::vector<std::string> head;  // of a line that others follow
  std::vector<std::string> columns;
  for_each_line(list, [&](std::size_t number, std::string_view line) {
    const auto fail = [&](const std::string& problem) {
      throw usage_error{path + ": line " + std::to_string(number) + ": " + problem};
    };
    const bool indented = line.starts_with(' ') || line.starts_with('\t');
    std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return;
    std::vector<std::string> entry;
    if (indented) {
      if (columns.empty())
        fail("an indented line gives the values of axes that a line before names after a colon");
      entry = head;
      std::size_t column = 0;
      for (const std::string& word : words) {
        const bool is_named = word.find('=') != std::string::npos;
        if (!is_named && column == columns.size())
          fail("more values than the " + std::to_string(column) + " axes");
        entry.push_back(is_named ? word : columns[column++] + "=" + word);
      }
      if (column < columns.size()) fail("no value of " + columns[column]);
    } else {
      const auto colon = std::find(words.begin(), words.end(), ":");
      columns.clear();
      if (colon != words.end()) {
        columns.assign(colon + 1, words.end());
        if (columns.empty()) fail("no axes after the colon");
        head.assign(words.begin(), colon);
        if (head.empty()) fail("no operator before the colon");
        return;
      }
      entry = std::move(words);
    }
    std::string calls = "calls=1";
    std::erase_if(entry, [&calls](const std::string& word) {
      if (!word.starts_with(calls_word)) return false;
      calls = word;
      return true;
    });
    entry.push_back(std::move(calls));
    try {
      visit(entry);
    } catch (const usage_error& wrong) {
      fail(wrong.what());
    }
  });
}

}  // namespace tool
