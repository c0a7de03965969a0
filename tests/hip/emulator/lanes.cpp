// SPDX-License-Identifier: MIT
// Instructions that move values between lanes and registers.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "wave.hpp"

namespace emulator {

void wave::copy(const instruction& what) {
  refresh_mask();
  row value{};
  if (what.source[0] >= 256)
    value = *vector(what.source[0], 1);
  else
    std::fill_n(value.lane, lanes,
                static_cast<std::uint32_t>(scalar(what.source[0], 32, number::integer, what.literal)));
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) to[lane] = value[lane];
  }
}

/// v_swap_b32: two registers of the enabled lanes.
void wave::swap(const instruction& what) {
  if (!what.plain || !what.plain_result) throw fault{"changes what it swaps, which is not known"};
  refresh_mask();
  row& one = *vector(what.source[0], 1);
  row& other = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) std::swap(one[lane], other[lane]);
  }
}

/// ds_permute_b32, ds_bpermute_b32 and ds_swizzle_b32, which move values between lanes and touch no memory.
void wave::exchange_lanes(const instruction& what) {
  refresh_mask();
  const row& addresses = *vector(what.source[0], 1);
  pending& one = send(arrival::shared, what.result, 1);
  one.data[0] = row{};
  const auto offset = static_cast<std::uint32_t>(what.immediate);
  if (what.does == work::swizzle) {
    if (offset >= 0xc000) throw fault{"swizzles in a way that is not known"};
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const unsigned in_group = lane & 31U;
      const unsigned from =
          (offset & 0x8000U) != 0
              ? (lane & ~3U) + (offset >> 2 * (lane & 3U) & 3U)
              : (lane & ~31U) + (((in_group & offset) | (offset >> 5U & 31U)) ^ (offset >> 10U & 31U));
      one.data[0][lane] = mask_[from] != 0 ? addresses[from] : 0;
    }
  } else {
    const row& data = *vector(what.source[1], 1);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const unsigned other = (addresses[lane] + offset) / 4 % lanes;
      if (what.does == work::permute_back)
        one.data[0][lane] = mask_[other] != 0 ? data[other] : 0;
      else if (mask_[lane] != 0)
        one.data[0][other] = data[lane];
    }
  }
  row& result = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (mask_[lane] != 0) result[lane] = 0x7fc0ffad;
  }
}

/// v_permlane16_b32 and v_permlanex16_b32: within a row of 16 lanes, or from the row beside it.
void wave::permute_rows(const instruction& what) {
  refresh_mask();
  const row from = *vector(what.source[0], 1);
  std::uint64_t places = 0;
  for (unsigned i = 0; i < 2; ++i)
    places |= scalar(what.source[1 + i], 32, number::integer, what.literal) << 32 * i;
  const unsigned other = std::string_view{what.what->name}.starts_with("V_PERMLANEX") ? 16 : 0;
  row& to = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const unsigned source = ((lane & ~15U) ^ other) + static_cast<unsigned>(places >> 4 * (lane % 16) & 15U);
    const bool fetches = mask_[source] != 0 || (what.opsel & 1U) != 0;
    if (mask_[lane] != 0 && (fetches || (what.opsel & 2U) != 0)) to[lane] = fetches ? from[source] : 0;
  }
}

/// v_permlane16_swap_b32 and v_permlane32_swap_b32: of all lanes, whatever EXEC says.
void wave::swap_rows(const instruction& what) {
  const unsigned apart = std::string_view{what.what->name}.starts_with("V_PERMLANE16") ? 16 : 32;
  row& one = *vector(what.source[0], 1);
  row& other = *vector(what.result, 1);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if ((lane & apart) == 0) std::swap(one[lane], other[lane + apart]);
  }
}

/// ds_read_b64_tr_b16 and ..._b8: 16 lanes read four (eight) rows of 16 elements, four (two) lanes each row.
/// Lane n gets column n.
void wave::read_transposed(const instruction& what) {
  if (exec() != ~std::uint64_t{}) throw fault{"transposes what not all lanes read, which is not known"};
  memory.shared = true;
  memory.atomic = false;
  const unsigned bits = std::string_view{what.what->name}.ends_with("B8") ? 8 : 16;
  const unsigned rows = 64 / bits;
  const row& addresses = *vector(what.source[0], 1);
  std::array<std::uint64_t, lanes> read;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(what.immediate);
    read[lane] = memory.load<std::uint64_t>(address & 0xffffffffU);
  }
  pending& one = send(arrival::shared, what.result, 2);
  row* const result = vector(what.result, 2);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::uint64_t column = 0;
    for (unsigned k = 0; k < rows; ++k) {
      const std::uint64_t from = read[(lane & ~15U) + 16 / rows * k + lane % 16 / rows];
      column |= (from >> bits * (lane % rows) & ((1U << bits) - 1)) << bits * k;
    }
    for (unsigned i = 0; i < 2; ++i) {
      one.data[i][lane] = static_cast<std::uint32_t>(column >> 32 * i);
      result[i][lane] = 0x7fc0ffad;  // until it arrives
    }
  }
}

}  // namespace emulator
