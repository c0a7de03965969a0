// SPDX-License-Identifier: MIT
#include "kv_cache.hpp"

namespace llm {

namespace sy = switchyard;

kv_cache::kv_cache(const model_config& config, const sy::device& device, sy::dtype type, std::int64_t tokens)
    : type_{type}, pages_{pages_for(tokens)}, heads_kv_{config.heads_kv}, head_dim_{config.head_dim} {
  const auto bytes = static_cast<std::size_t>(pages_ * page_size * heads_kv_ * head_dim_ * sy::size_of(type));
  for (std::int64_t i = 0; i < 2 * config.layers; ++i) memory_.emplace_back(device, bytes);
  for (std::int64_t page = pages_; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
}

std::vector<std::int32_t> kv_cache::take(std::int64_t count) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(free_.back());
    free_.pop_back();
  }
  return out;
}

void kv_cache::give_back(const std::vector<std::int32_t>& pages) {
  free_.insert(free_.end(), pages.rbegin(), pages.rend());
}

void kv_cache::clear() {
  for (device_memory& part : memory_) part.fill(0);
}

sy::tensor kv_cache::view(std::size_t index) const {
  return {memory_[index].data(), type_, {pages_, page_size, heads_kv_, head_dim_}};
}

}  // namespace llm
