// SPDX-License-Identifier: MIT
#include "memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <switchyard/error.hpp>

namespace switchyard_ggml {

namespace sy = switchyard;

device_memory::device_memory(std::shared_ptr<sy::device_driver> driver, std::size_t bytes)
    : driver_{std::move(driver)}, bytes_{bytes}, address_{driver_->allocate(bytes, {})} {
  // Allocated in the order of the default stream, which a backend's own stream does not wait for.
  if (address_ != nullptr && driver_->synchronize({}) == 0) return;
  driver_->release(address_, {});
  throw sy::driver_error{sy::error_code::out_of_memory,
                         driver_->properties().name + " has no " + std::to_string(bytes) + " bytes left"};
}

void* arena::take(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  constexpr std::size_t least = std::size_t{1} << 20U;
  const std::size_t rounded = (std::max(bytes, std::size_t{1}) + alignment - 1) / alignment * alignment;
  for (; chunk_ < chunks_.size(); ++chunk_, used_ = 0) {
    if (chunks_[chunk_]->bytes() - used_ >= rounded) break;
  }
  if (chunk_ == chunks_.size()) {
    const std::size_t doubled = chunks_.empty() ? least : 2 * chunks_.back()->bytes();
    chunks_.push_back(std::make_unique<device_memory>(driver_, std::max(rounded, doubled)));
  }
  void* const out = chunks_[chunk_]->data() + used_;
  used_ += rounded;
  return out;
}

void arena::reset() noexcept {
  chunk_ = 0;
  used_ = 0;
}

}  // namespace switchyard_ggml
