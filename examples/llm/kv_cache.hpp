// SPDX-License-Identifier: MIT
// The keys and values of all sequences in pages, and the pages of each sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/tensor.hpp>

#include "device_memory.hpp"
#include "model_config.hpp"

namespace llm {

class kv_cache {
 public:
  static constexpr std::int64_t page_size = 64;

  /// Room for `tokens` tokens, rounded up to pages. Throws driver_error out_of_memory.
  kv_cache(const model_config& config, const switchyard::device& device, switchyard::dtype type,
           std::int64_t tokens);

  [[nodiscard]] switchyard::dtype type() const noexcept { return type_; }
  /// [pages, page_size, heads_kv, head_dim] of a layer.
  [[nodiscard]] switchyard::tensor keys(std::size_t layer) const { return view(2 * layer); }
  [[nodiscard]] switchyard::tensor values(std::size_t layer) const { return view(2 * layer + 1); }
  [[nodiscard]] std::int64_t pages() const noexcept { return pages_; }
  [[nodiscard]] std::int64_t free_pages() const noexcept { return static_cast<std::int64_t>(free_.size()); }

  [[nodiscard]] static std::int64_t pages_for(std::int64_t tokens) noexcept {
    return (tokens + page_size - 1) / page_size;
  }
  /// The slot of a token of a sequence with these pages, as rotary_cache numbers slots.
  [[nodiscard]] static std::int64_t slot_of(const std::vector<std::int32_t>& pages, std::int64_t position) {
    return pages[static_cast<std::size_t>(position / page_size)] * page_size + position % page_size;
  }
  /// Takes `count` pages, which free_pages() must hold.
  [[nodiscard]] std::vector<std::int32_t> take(std::int64_t count);
  void give_back(const std::vector<std::int32_t>& pages);
  /// Sets all keys and values to zero.
  void clear();

 private:
  [[nodiscard]] switchyard::tensor view(std::size_t index) const;

  switchyard::dtype type_;
  std::int64_t pages_;
  std::int64_t heads_kv_;
  std::int64_t head_dim_;
  std::vector<device_memory> memory_;  ///< keys, then values, of each layer
  std::vector<std::int32_t> free_;
};

}  // namespace llm
