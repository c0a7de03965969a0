// SPDX-License-Identifier: MIT
// The bodies of names.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/names.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION void scope::add(std::string_view name, symbol meaning) {
  names_.push_back({std::string{name}, meaning});
}

SWITCHYARD_FUNCTION void scope::add_enumerator(std::string_view name, std::int64_t value) {
  for (auto& entry : names_) {
    if (entry.name == name) {
      if (entry.meaning.from == symbol::source::constant && entry.meaning.value != value) {
        entry.meaning.ambiguous = true;
      }
      return;
    }
  }
  add_constant(name, value);
}

SWITCHYARD_FUNCTION void scope::add_former(std::string_view former, std::string_view name) {
  if (const symbol* const meaning = find(name)) former_.push_back({std::string{former}, *meaning});
}

SWITCHYARD_FUNCTION const symbol* scope::find(std::string_view name) const noexcept {
  for (std::size_t i = names_.size(); i-- > 0;) {
    if (names_[i].name == name) return &names_[i].meaning;
  }
  for (const named& known : former_) {
    if (known.name == name) return &known.meaning;
  }
  return nullptr;
}

SWITCHYARD_FUNCTION std::vector<std::string_view> scope::names() const {
  std::vector<std::string_view> all;
  for (const auto& entry : names_) all.push_back(entry.name);
  return all;
}

}  // namespace v0
}  // namespace switchyard
