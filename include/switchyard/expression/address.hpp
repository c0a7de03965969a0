// SPDX-License-Identifier: MIT
// Whether an expression's value is an address, or is computed from one. Extents and sizes must not be.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/expression/expression.hpp>
#include <switchyard/expression/program.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Runs a program on what each value is made of instead of on values.
class address_finder {
 public:
  address_finder(std::span<const instruction> program, std::span<const field_description> fields)
      : program_{program}, fields_{fields} {}

  [[nodiscard]] bool run();

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as conditionals nest in the text
  void run(std::size_t begin, std::size_t end);

  std::span<const instruction> program_;
  std::span<const field_description> fields_;
  std::vector<bool> stack_;
};

}  // namespace detail

/// Whether an expression over an operator's arguments gives an address, or a number computed from one.
[[nodiscard]] inline bool gives_address(const expression& of, std::span<const field_description> fields) {
  return of.reads_fields() && detail::address_finder{of.program(), fields}.run();
}

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/expression/address_impl.hpp>
#endif
