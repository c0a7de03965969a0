// SPDX-License-Identifier: MIT
// What dropout multiplies attention weights with, on the CPU; see operators/attention_dropout_mask.hpp. A
// block is a query of one head.
#include <cstdint>

#include <switchyard/base/philox.hpp>
#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>

namespace {

void attention_dropout_mask(const switchyard::host::block& this_block,
                            switchyard::operators::attention_dropout_mask::arguments a) {
  const std::uint64_t seed = a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed;
  const std::uint64_t offset = a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset;
  const std::uint32_t threshold = switchyard::dropout_threshold(a.dropout_p);
  const float factor = 1.0F / (1.0F - a.dropout_p);
  float* const row =
      a.mask + (std::int64_t{this_block.index.y} * a.seqlen_q + this_block.index.x) * a.seqlen_k;
  switchyard::philox_counter words{};
  for (std::int64_t j = 0; j < a.seqlen_k; ++j) {
    if (j % 4 == 0) {
      words = switchyard::dropout_words(seed, offset, this_block.index.y, this_block.index.x,
                                        static_cast<std::uint32_t>(j / 4));
    }
    row[j] = words[static_cast<std::size_t>(j % 4)] < threshold ? 0.0F : factor;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
extern const switchyard::host::kernel attention_dropout_mask_f32;
const switchyard::host::kernel attention_dropout_mask_f32 =
    switchyard::host::make_kernel<&attention_dropout_mask>();
}
#pragma GCC visibility pop
