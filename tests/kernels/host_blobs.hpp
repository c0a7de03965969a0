// SPDX-License-Identifier: MIT
// Runs kernels of the CPU blobs without the library: opens the shared objects and calls every block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "environment.hpp"

namespace switchyard::test {

/// A shared object of kernels.
class blob {
 public:
  explicit blob(const std::filesystem::path& path)
      : name_{path.stem().string()}, handle_{::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)} {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message for each thread
    if (handle_ == nullptr) throw std::runtime_error{path.string() + ": " + ::dlerror()};
  }

  [[nodiscard]] const std::string& name() const { return name_; }

  [[nodiscard]] const host::kernel& find(const std::string& kernel) const {
    const void* symbol = ::dlsym(handle_, kernel.c_str());
    if (symbol == nullptr) throw std::runtime_error{name_ + " has no kernel " + kernel};
    return *static_cast<const host::kernel*>(symbol);
  }

 private:
  std::string name_;
  void* handle_;
};

/// Whether this processor runs what a blob's name promises.
[[nodiscard]] inline bool runs_here(std::string_view name) {
#if defined(__x86_64__)
  if (name.find("avx512") != name.npos) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  if (name.find("avx2") != name.npos) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return !name.empty();
}

/// The blobs named `stem`, an underscore and an instruction set, anywhere below the folder of the environment
/// variable SWITCHYARD_TEST_BLOBS or, without it, of the macro that the build gives.
[[nodiscard]] inline const std::vector<blob>& blobs(std::string_view stem) {
  static std::map<std::string, std::vector<blob>, std::less<>> known;
  const auto open_all = [&stem] {
    const char* folder = variable("SWITCHYARD_TEST_BLOBS");
#if defined(SWITCHYARD_TEST_BLOBS_FOLDER)
    if (folder == nullptr) folder = SWITCHYARD_TEST_BLOBS_FOLDER;
#endif
    if (folder == nullptr) throw std::runtime_error{"set SWITCHYARD_TEST_BLOBS to the folder of the kernels"};
    std::vector<blob> result;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() == ".so" && name.rfind(stem, 0) == 0 && name[stem.size()] == '_' &&
          name.find('_', stem.size() + 1) == name.npos && runs_here(name)) {
        result.emplace_back(entry.path());
      }
    }
    if (result.empty())
      throw std::runtime_error{std::string{folder} + " has no blob " + std::string{stem} + "_*.so"};
    return result;
  };
  const auto found = known.find(stem);
  return found != known.end() ? found->second : known.emplace(stem, open_all()).first->second;
}

/// Memory whose contents end where they are said to end: under AddressSanitizer a byte too far is an error.
template <class Value>
class exact_array {
 public:
  exact_array() = default;
  explicit exact_array(std::size_t count) : data_{new Value[count]{}}, size_{count} {}
  [[nodiscard]] Value* data() { return data_.get(); }
  [[nodiscard]] const Value* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Value& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] const Value& operator[](std::size_t i) const { return data_[i]; }

 private:
  std::unique_ptr<Value[]> data_;  // NOLINT(modernize-avoid-c-arrays)
  std::size_t size_ = 0;
};

/// Calls every block of a grid, in an order that nothing may depend on, with scratch full of NaN.
template <class... Parameters>
void launch(const host::kernel& kernel, dim3 grid, std::size_t scratch_bytes,
            const Parameters&... parameters) {
  constexpr std::array<std::uint32_t, sizeof...(Parameters)> bytes{sizeof(Parameters)...};
  if (kernel.abi != 1 || kernel.parameter_count != bytes.size()) {
    throw std::runtime_error{"the kernel takes other parameters"};
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (kernel.parameter_bytes[i] != bytes[i]) {
      throw std::runtime_error{"the kernel's parameter " + std::to_string(i) + " is of another size"};
    }
  }
  const std::array<const void*, sizeof...(Parameters)> pointers{&parameters...};
  struct free_aligned {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  void* memory = nullptr;
  if (::posix_memalign(&memory, 64, scratch_bytes) != 0) throw std::bad_alloc{};
  const std::unique_ptr<std::byte, free_aligned> scratch{static_cast<std::byte*>(memory)};
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t n = 0; n < blocks; ++n) {
    const std::uint64_t at = n % 2 == 0 ? n / 2 : blocks - 1 - n / 2;
    const host::block block{
        {static_cast<std::uint32_t>(at % grid.x), static_cast<std::uint32_t>(at / grid.x % grid.y),
         static_cast<std::uint32_t>(at / grid.x / grid.y)},
        grid,
        {1, 1, 1},
        {scratch.get(), scratch_bytes}};
    std::fill_n(scratch.get(), scratch_bytes, std::byte{0xFF});
    kernel.run(block, pointers.data());
  }
}

/// A tensor of a run-time element type.
class tensor {
 public:
  tensor() = default;
  tensor(dtype type, std::int64_t count)
      : type_{type}, count_{count}, bytes_{static_cast<std::size_t>(count * size_of(type))} {}

  /// Standard normal values.
  static tensor random(dtype type, std::int64_t count, std::mt19937& random) {
    tensor result{type, count};
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) reference::store(type, result.data(), i, normal(random));
    return result;
  }
  /// NaN everywhere, with a payload that no computation makes.
  static tensor poisoned(dtype type, std::int64_t count) {
    tensor result{type, count};
    std::fill_n(result.bytes_.data(), result.bytes_.size(), std::byte{0xFF});
    return result;
  }

  [[nodiscard]] void* data() { return bytes_.data(); }
  [[nodiscard]] const void* data() const { return bytes_.data(); }
  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] double operator[](std::int64_t i) const { return reference::load(type_, data(), i); }
  /// Whether an element still is as poisoned() made it.
  [[nodiscard]] bool untouched(std::int64_t i) const {
    const auto bytes = size_of(type_);
    for (std::int64_t n = 0; n < bytes; ++n) {
      if (bytes_[static_cast<std::size_t>(i * bytes + n)] != std::byte{0xFF}) return false;
    }
    return true;
  }

 private:
  dtype type_ = dtype::f32;
  std::int64_t count_ = 0;
  exact_array<std::byte> bytes_;
};

inline constexpr std::array<dtype, 3> element_types{dtype::f32, dtype::f16, dtype::bf16};

[[nodiscard]] inline std::string type_name(dtype type) {
  return std::string{enumerator_names<dtype>[static_cast<std::size_t>(type)]};
}

}  // namespace switchyard::test
