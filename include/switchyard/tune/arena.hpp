// SPDX-License-Identifier: MIT
// A device whose memory comes from one block, which the tensors of successive problems reuse. Freeing and
// allocating through the driver takes long, and a tuner would wait for it at every problem.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <switchyard/devices/driver.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Hands out parts of the block in order, and starts again at its beginning once all were released. What does
/// not fit comes from the driver. For one thread, and for work on one stream.
class arena final : public forwarding_driver {
 public:
  /// Takes half of the free memory, or as much as it gets; with nothing, everything comes from the driver.
  explicit arena(std::shared_ptr<device_driver> of) : forwarding_driver{std::move(of)} {
    const auto memory = static_cast<std::size_t>(driver().properties().attribute("memory_bytes"));
    for (std::size_t share = 2; share <= 16 && begin_ == nullptr; share *= 2) {
      bytes_ = memory / share;
      if (bytes_ > 0) begin_ = static_cast<std::byte*>(driver().allocate(bytes_, {}));
    }
    if (begin_ == nullptr) bytes_ = 0;
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena() override {
    if (begin_ != nullptr) driver().release(begin_, {});
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

  [[nodiscard]] void* allocate(std::size_t bytes, stream on) noexcept override {
    constexpr std::size_t step = 1024;
    if (bytes > bytes_ - used_ || bytes_ - used_ - bytes < step) return driver().allocate(bytes, on);
    std::byte* const out = begin_ + used_;
    used_ += (bytes + step - 1) / step * step;
    ++parts_;
    return out;
  }
  void release(void* address, stream on) noexcept override {
    auto* const place = static_cast<std::byte*>(address);
    if (begin_ == nullptr || place < begin_ || place >= begin_ + bytes_) {
      driver().release(address, on);
    } else if (--parts_ == 0) {
      used_ = 0;
    }
  }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
  std::size_t parts_ = 0;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
