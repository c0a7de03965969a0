// SPDX-License-Identifier: MIT
#include "device_memory.hpp"

#include <new>
#include <string>
#include <utility>

#include <switchyard/error.hpp>

namespace llm {

namespace sy = switchyard;

namespace {

constexpr std::align_val_t host_alignment{256};

}  // namespace

device_memory::device_memory(const sy::device& device, std::size_t bytes)
    : driver_{device.driver()}, bytes_{bytes} {
  if (bytes == 0) return;
  address_ = driver_->allocate(bytes, {});
  if (address_ == nullptr) {
    throw sy::driver_error{
        sy::error_code::out_of_memory,
        driver_->properties().name + " has no " + std::to_string(bytes) + " bytes left for the model"};
  }
  // Ordered in the default stream, which other streams do not wait for.
  finish(0, "allocating memory");
}

device_memory::~device_memory() {
  if (address_ != nullptr) driver_->release(address_, {});
}

void device_memory::upload(const void* from, std::size_t bytes, std::size_t first) {
  finish(driver_->copy(data() + first, from, bytes, {}), "copying to the device");
}

void device_memory::fill(std::uint8_t byte) {
  if (bytes_ > 0) finish(driver_->fill(address_, byte, bytes_, {}), "filling memory");
}

void device_memory::swap(device_memory& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

void device_memory::finish(sy::status result, const char* problem) const {
  if (result == 0) result = driver_->synchronize({});
  if (result == 0) return;
  throw sy::driver_error{sy::error_code::driver_failed,
                         driver_->properties().name + ": " + problem + ": " + driver_->describe(result)};
}

host_memory::host_memory(std::shared_ptr<const device_api> api, std::size_t bytes)
    : api_{std::move(api)}, bytes_{bytes} {
  if (bytes == 0) return;
  if (api_ == nullptr) {
    address_ = ::operator new(bytes, host_alignment);
    return;
  }
  const device_scope current{api_.get()};
  constexpr unsigned portable = 1;  // pinned for all contexts
  api_->require(api_->host_allocate(&address_, bytes, portable), "pinning memory");
}

host_memory::~host_memory() {
  if (address_ == nullptr) return;
  if (api_ == nullptr) {
    ::operator delete(address_, host_alignment);
    return;
  }
  const device_scope current{api_.get()};
  api_->host_free(address_);
}

void host_memory::swap(host_memory& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace llm
