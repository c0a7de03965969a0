// SPDX-License-Identifier: MIT
// The dispatchers of an operator, one for each device, made by the first call there; and one for each device
// and reproducible class that a thread's calls are limited to.
//
// A dispatcher of all devices would look the device up by the stream. Here the tensors tell it, and must: a
// call on the CPU has the null stream, which on a machine with a GPU means that GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <switchyard/dispatcher.hpp>

#include "device_stream.hpp"
#include "kernels.hpp"
#include "reproducible.hpp"

namespace switchyard_torch {

template <class Operator>
class dispatchers {
 public:
  /// Throws error where the device or the operator's files cannot be used; the next call tries again.
  [[nodiscard]] static switchyard::dispatcher<Operator>& at(const device_stream& where) {
    static dispatchers all;
    const std::size_t index = where.is_cpu ? 0 : static_cast<std::size_t>(where.index) + 1;
    if (index >= all.known_.size()) throw std::runtime_error{"switchyard: more than 64 devices"};
    if (is_reproducible_wanted()) [[unlikely]] {
      if (const std::string& of_class = wanted_class(Operator::name); !of_class.empty())
        return all.limited(where, index, of_class);
    }
    if (auto* const known = all.known_[index].load(std::memory_order_acquire)) return *known;
    return all.make(where, index);
  }

 private:
  using dispatcher = switchyard::dispatcher<Operator>;

  // The catalog is made before any dispatcher, hence destroyed after them.
  dispatchers() : kernels_{kernels()} {}

  [[nodiscard]] dispatcher& make(const device_stream& where, std::size_t index) {
    const std::scoped_lock lock{mutex_};
    if (owned_[index] == nullptr) {
      owned_[index] = std::make_unique<dispatcher>(kernels_, device_of(where));
      known_[index].store(owned_[index].get(), std::memory_order_release);
    }
    return *owned_[index];
  }

  [[nodiscard]] dispatcher& limited(const device_stream& where, std::size_t index,
                                    const std::string& of_class) {
    const std::scoped_lock lock{mutex_};
    auto& entry = of_classes_[{index, of_class}];
    if (entry == nullptr) {
      entry = std::make_unique<dispatcher>(kernels_, device_of(where),
                                           switchyard::choice_limits{.reproducible = of_class});
    }
    return *entry;
  }

  switchyard::catalog& kernels_;
  std::mutex mutex_;
  std::array<std::unique_ptr<dispatcher>, 65> owned_;
  std::map<std::pair<std::size_t, std::string>, std::unique_ptr<dispatcher>>
      of_classes_;  // guarded by mutex_
  std::array<std::atomic<dispatcher*>, 65> known_{};
};

}  // namespace switchyard_torch
