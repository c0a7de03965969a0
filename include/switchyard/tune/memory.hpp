// Device memory for measuring and for programs that have no allocator of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/driver.hpp>
#include <switchyard/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/float16.hpp>

namespace switchyard::inline v0::tune {

/// Memory of a device, freed with the object. Throws driver_error out_of_memory.
class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(std::shared_ptr<device_driver> driver, std::size_t bytes, stream where = {})
      : driver_{std::move(driver)}, where_{where}, bytes_{bytes} {
    if (bytes == 0) return;
    address_ = driver_->allocate(bytes, where_);
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
    if (address_ != nullptr) driver_->release(address_, where_);
  }

  template <class Value = void>
  [[nodiscard]] Value* data() const noexcept {
    return static_cast<Value*>(address_);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Copies from host memory.
  void upload(const void* from, std::size_t bytes) { require(driver_->copy(address_, from, bytes, where_)); }

  /// Copies to host memory and waits for it.
  void download(void* to, std::size_t bytes) const {
    require(driver_->copy(to, address_, bytes, where_));
    require(driver_->synchronize(where_));
  }

  /// Fills with a byte: 0xff is NaN in every floating-point type.
  void fill(std::uint8_t byte) {
    if (bytes_ > 0) require(driver_->fill(address_, byte, bytes_, where_));
  }

 private:
  void swap(device_buffer& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(where_, other.where_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  void require(status result) const {
    if (result != 0)
      throw driver_error{error_code::driver_failed, "copying memory: " + driver_->describe(result)};
  }

  std::shared_ptr<device_driver> driver_;
  stream where_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Random values, even over [-1, 1), as elements of a type.
[[nodiscard]] inline std::vector<std::byte> random_elements(dtype type, std::size_t count,
                                                            std::uint64_t seed) {
  std::mt19937_64 generator{seed};
  std::uniform_real_distribution<float> values{-1.0F, 1.0F};
  std::vector<std::byte> out(count * static_cast<std::size_t>(size_of(type)));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values(generator);
    if (type == dtype::f32) {
      std::memcpy(&out[i * 4], &value, 4);
    } else {
      const std::uint16_t bits =
          type == dtype::bf16 ? bf16_from(static_cast<double>(value)) : f16_from(static_cast<double>(value));
      std::memcpy(&out[i * 2], &bits, 2);
    }
  }
  return out;
}

/// A tensor of random values. A large one repeats a random block of about a million elements, of a length
/// that no row divides.
[[nodiscard]] inline device_buffer random_tensor(const std::shared_ptr<device_driver>& driver, dtype type,
                                                 std::size_t count, std::uint64_t seed) {
  constexpr std::size_t most = 1'048'573;  // a prime
  device_buffer out{driver, count * static_cast<std::size_t>(size_of(type))};
  if (count == 0) return out;
  const auto block = random_elements(type, count < most ? count : most, seed);
  for (std::size_t at = 0; at < out.bytes(); at += block.size()) {
    const std::size_t bytes = out.bytes() - at < block.size() ? out.bytes() - at : block.size();
    const status result = driver->copy(out.data<std::byte>() + at, block.data(), bytes, {});
    if (result != 0)
      throw driver_error{error_code::driver_failed, "copying memory: " + driver->describe(result)};
  }
  return out;
}

}  // namespace switchyard::inline v0::tune
