// SPDX-License-Identifier: MIT
// Matrix instructions: D = A B + C, with a wave's registers holding the matrices in ways that pseudocode does
// not tell.
#pragma once

#include <cstdint>
#include <string_view>

#include "kinds.hpp"

namespace emulator {

enum class element : std::uint8_t { f16, bf16, f32 };
enum class layout : std::uint8_t { mfma, wmma, wmma_of_rdna4 };

/// A is size x inner, B inner x size, C and D size x size of f32.
///
/// MFMA: lanes form 64 / size groups. Row i of A (column i of B) lies in lane i of each group, which holds
/// the next inner * size / 64 elements of it, packed into registers. Column n of D lies in lane n of each
/// group: a group holds four rows, then the next group four, and with the next four registers the first group
/// again.
///
/// WMMA of RDNA3: row i of A (column i of B) lies in lane i, all of it, and in lane i + 16 once more. Column
/// n of D lies in lane n, its even rows, and in lane n + 16, its odd ones.
///
/// WMMA of RDNA4: of row i of A (column i of B), lane i holds the first half, lane i + 16 the second. Column
/// n of D lies in lane n, its first eight rows, and in lane n + 16, the others.
struct matrix_kind {
  const char* name;
  unsigned size;
  unsigned inner;
  element of;
  layout as = layout::mfma;

  /// Registers of A, as of B, and of C, as of D.
  [[nodiscard]] unsigned factor_registers() const {
    const unsigned elements = as == layout::wmma ? inner : inner * size / lanes;
    return of == element::f32 ? elements : elements / 2;
  }
  [[nodiscard]] unsigned sum_registers() const { return size * size / lanes; }
};

/// Null where the kind is not emulated.
[[nodiscard]] const matrix_kind* find_matrix_kind(std::string_view name);

struct matrix_place {
  unsigned lane;
  unsigned index;  ///< of an element among those of the lane
};
/// Where the element k of row i of A, or of column i of B, lies.
[[nodiscard]] matrix_place place_of_factor(const matrix_kind& kind, unsigned i, unsigned k);
/// Where the element of row m and column n of C and D lies.
[[nodiscard]] matrix_place place_of_sum(const matrix_kind& kind, unsigned m, unsigned n);

/// `c` is null where it is a constant in all elements. `d` may be `c`, and overlap `a` and `b`. Throws fault
/// where lanes that must repeat others do not.
void multiply(const matrix_kind& kind, const row* a, const row* b, const row* c, float constant, row* d);

}  // namespace emulator
