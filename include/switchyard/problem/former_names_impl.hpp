// SPDX-License-Identifier: MIT
// The bodies of former_names.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/problem/former_names.hpp>
#include <switchyard/problem/problem.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION std::string with_current_names(const operator_description& op, std::string_view text) {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && in_name(text[end])) ++end;
    out += current_name(op, text.substr(begin, end - begin));
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

}  // namespace v0
}  // namespace switchyard
