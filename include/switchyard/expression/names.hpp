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
  void add(std::string_view name, symbol meaning) { names_.push_back({std::string{name}, meaning}); }
  void add_constant(std::string_view name, std::int64_t value) {
    add(name, {symbol::source::constant, 0, value, static_cast<double>(value), false});
  }
  void add_enumerator(std::string_view name, std::int64_t value) {
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
  /// A former name of what `name` stands for at this moment. It is found, but not among names(), and any
  /// other name hides it.
  void add_former(std::string_view former, std::string_view name) {
    if (const symbol* const meaning = find(name)) former_.push_back({std::string{former}, *meaning});
  }
  [[nodiscard]] const symbol* find(std::string_view name) const noexcept {
    for (std::size_t i = names_.size(); i-- > 0;) {
      if (names_[i].name == name) return &names_[i].meaning;
    }
    for (const named& each : former_) {
      if (each.name == name) return &each.meaning;
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> all;
    for (const auto& entry : names_) all.push_back(entry.name);
    return all;
  }
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
