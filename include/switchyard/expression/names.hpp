// SPDX-License-Identifier: MIT
// The names an expression may use, and what each stands for.
//
// A scope is filled while a file is read, and parsing looks names up in it. It owns copies of the names. It
// is not synchronized: one thread fills and reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

/// What a name in an expression stands for.
struct symbol {
  enum class source : std::uint8_t { constant, real_constant, axis, field, attribute };
  source from = source::constant;
  std::uint32_t index = 0;  ///< of the axis, field or attribute
  std::int64_t value = 0;   ///< of a constant
  double real = 0;          ///< of a real constant
  bool ambiguous = false;   ///< two axes give this enumerator name different values
};

/// The names an expression may use. Later additions hide earlier ones.
class scope {
 public:
  void add(std::string_view name, symbol meaning);
  void add_constant(std::string_view name, std::int64_t value) {
    add(name, {symbol::source::constant, 0, value, static_cast<double>(value), false});
  }
  void add_enumerator(std::string_view name, std::int64_t value);
  /// A former name of what `name` stands for at this moment. It is found, but not among names(), and any
  /// other name hides it.
  void add_former(std::string_view former, std::string_view name);
  [[nodiscard]] const symbol* find(std::string_view name) const noexcept;
  [[nodiscard]] std::vector<std::string_view> names() const;
  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  /// Forgets what was added after there were `size` names.
  void truncate(std::size_t size) { names_.resize(size); }

 private:
  struct named {
    std::string name;
    symbol meaning;
  };
  std::vector<named> names_;
  std::vector<named> former_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/names_impl.hpp>
#endif
