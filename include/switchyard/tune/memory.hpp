// SPDX-License-Identifier: MIT
// Device memory for measuring and for programs that have no allocator of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/float16.hpp>
#include <switchyard/base/float8.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Memory of a device, freed with the object. Throws driver_error out_of_memory.
class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(std::shared_ptr<device_driver> driver, std::size_t bytes, switchyard::stream stream = {})
      : driver_{std::move(driver)}, stream_{stream}, bytes_{bytes} {
    if (bytes == 0) return;
    address_ = driver_->allocate(bytes, stream_);
    if (address_ == nullptr) {
      throw driver_error{error_code::out_of_memory, driver_->properties().name + " has no " +
                                                        std::to_string(bytes) +
                                                        " bytes left; measure a smaller problem"};
    }
  }
  device_buffer(device_buffer&& other) noexcept { swap(other); }
  device_buffer& operator=(device_buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  device_buffer(const device_buffer&) = delete;
  device_buffer& operator=(const device_buffer&) = delete;
  ~device_buffer() {
    if (address_ != nullptr) driver_->release(address_, stream_);
  }

  template <class Value = void>
  [[nodiscard]] Value* data() const noexcept {
    return static_cast<Value*>(address_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Copies from host or device memory, to `first` bytes into this one.
  void upload(const void* from, std::size_t bytes, std::size_t first = 0) {
    require(driver_->copy(static_cast<std::byte*>(address_) + first, from, bytes, stream_));
  }

  /// Copies to host memory, from `first` bytes into this one, and waits for it.
  void download(void* to, std::size_t bytes, std::size_t first = 0) const {
    require(driver_->copy(to, static_cast<std::byte*>(address_) + first, bytes, stream_));
    require(driver_->synchronize(stream_));
  }

  /// Fills with a byte, from `first` on: 0xff is NaN in every floating-point type.
  void fill(std::uint8_t byte, std::size_t first = 0) { fill(byte, first, bytes_ - first); }
  void fill(std::uint8_t byte, std::size_t first, std::size_t bytes) {
    if (bytes > 0) require(driver_->fill(static_cast<std::byte*>(address_) + first, byte, bytes, stream_));
  }

 private:
  void swap(device_buffer& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(stream_, other.stream_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  void require(status result) const {
    if (result != 0)
      throw driver_error{error_code::driver_failed, "copying memory: " + driver_->describe(result)};
  }

  std::shared_ptr<device_driver> driver_;
  stream stream_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Random values, even over [-spread, spread), as elements of a type. f8 has no room for a spread but 1.
[[nodiscard]] inline std::vector<std::byte> random_elements(dtype type, std::size_t count, std::uint64_t seed,
                                                            float spread = 1) {
  if (type == dtype::f8_e4m3) spread = 1;
  std::mt19937_64 generator{seed};
  std::uniform_real_distribution<float> values{-spread, spread};
  std::vector<std::byte> out(count * static_cast<std::size_t>(size_of(type)));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values(generator);
    if (type == dtype::f64) {
      const auto wide = static_cast<double>(value);
      std::memcpy(&out[i * 8], &wide, 8);
    } else if (type == dtype::f32) {
      std::memcpy(&out[i * 4], &value, 4);
    } else if (type == dtype::f8_e4m3) {
      out[i] = static_cast<std::byte>(f8_e4m3_from(static_cast<double>(value)));
    } else {
      const std::uint16_t bits =
          type == dtype::bf16 ? bf16_from(static_cast<double>(value)) : f16_from(static_cast<double>(value));
      std::memcpy(&out[i * 2], &bits, 2);
    }
  }
  return out;
}

namespace detail {

/// The elements that a random tensor repeats: at most about a million, of a length that no row divides. The
/// latest few are kept, because a problem is set up several times.
[[nodiscard]] inline std::shared_ptr<const std::vector<std::byte>> random_block(dtype type, std::size_t count,
                                                                                std::uint64_t seed,
                                                                                float spread) {
  constexpr std::size_t most = 1'048'573;  // a prime
  constexpr std::size_t kept = 12;
  struct block {
    dtype type;
    std::size_t count;
    std::uint64_t seed;
    float spread;
    std::shared_ptr<const std::vector<std::byte>> elements;
  };
  static thread_local std::deque<block> recent;
  const std::size_t length = count < most ? count : most;
  for (const block& known : recent) {
    if (known.type == type && known.count == length && known.seed == seed && known.spread == spread)
      return known.elements;
  }
  recent.push_front(
      {type, length, seed, spread,
       std::make_shared<const std::vector<std::byte>>(random_elements(type, length, seed, spread))});
  if (recent.size() > kept) recent.pop_back();
  return recent.front().elements;
}

}  // namespace detail

/// A tensor of random values, with `spare` bytes before and behind it. A large one repeats a random block of
/// about a million elements.
[[nodiscard]] inline device_buffer random_tensor(const std::shared_ptr<device_driver>& driver, dtype type,
                                                 std::size_t count, std::uint64_t seed, std::size_t spare = 0,
                                                 float spread = 1) {
  const std::size_t total = count * static_cast<std::size_t>(size_of(type));
  device_buffer out{driver, total + 2 * spare};
  if (count == 0) return out;
  const auto block = detail::random_block(type, count, seed, spread);
  out.upload(block->data(), std::min(block->size(), total), spare);
  // What is there already is doubled on the device: uploading a large tensor takes longer than a call of it.
  for (std::size_t at = block->size(); at < total; at *= 2)
    out.upload(out.data<std::byte>() + spare, std::min(at, total - at), spare + at);
  return out;
}

/// The same values on the host.
[[nodiscard]] inline std::vector<std::byte> random_tensor(dtype type, std::size_t count, std::uint64_t seed,
                                                          float spread = 1) {
  std::vector<std::byte> out(count * static_cast<std::size_t>(size_of(type)));
  if (count == 0) return out;
  const auto block = detail::random_block(type, count, seed, spread);
  for (std::size_t at = 0; at < out.size(); at += block->size()) {
    std::memcpy(out.data() + at, block->data(), std::min(out.size() - at, block->size()));
  }
  return out;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
