// SPDX-License-Identifier: MIT
// Memory of a device: of a buffer's whole life, and pieces that calls need for a while.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <switchyard/devices/driver.hpp>

namespace switchyard_ggml {

/// Freed with the object, in the order of the default stream; no other stream may use it then.
class device_memory {
 public:
  /// Throws driver_error out_of_memory.
  device_memory(std::shared_ptr<switchyard::device_driver> driver, std::size_t bytes);
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { driver_->release(address_, {}); }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<switchyard::device_driver> driver_;
  std::size_t bytes_;
  void* address_;
};

/// Memory for temporary tensors: what was taken stays valid until reset(), which gives all of it back to the
/// next calls in the stream.
class arena {
 public:
  explicit arena(std::shared_ptr<switchyard::device_driver> driver) : driver_{std::move(driver)} {}

  /// Aligned to 256 bytes. Throws driver_error out_of_memory.
  [[nodiscard]] void* take(std::size_t bytes);
  void reset() noexcept;

 private:
  std::shared_ptr<switchyard::device_driver> driver_;
  std::vector<std::unique_ptr<device_memory>> chunks_;
  std::size_t chunk_ = 0;  // from which the next piece is taken
  std::size_t used_ = 0;   // of that chunk
};

/// Temporary memory of one backend, which computes one graph at a time. It keeps what it has, so that a graph
/// that is computed again gets the same addresses.
struct graph_memory {
  explicit graph_memory(const std::shared_ptr<switchyard::device_driver>& driver)
      : lasting{driver}, scratch{driver}, rounding{driver} {}
  arena lasting;   ///< what later nodes of the graph read
  arena scratch;   ///< of one node
  arena rounding;  ///< activations in another type, until others are
};

}  // namespace switchyard_ggml
