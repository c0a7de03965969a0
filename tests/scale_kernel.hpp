// SPDX-License-Identifier: MIT
// What the tests on CUDA and HIP devices share: the kernel `scale`, y = a x, of their blobs, launched by a
// driver and by a dispatcher.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operator.hpp>

#include "catch.hpp"
#include "cuda/written_files.hpp"

namespace device_test {

namespace sy = switchyard;

/// The addresses of a launch's parameters.
template <class... Values>
std::array<void*, sizeof...(Values)> pointers(Values&... values) {
  return {const_cast<void*>(static_cast<const void*>(&values))...};
}

/// A module on a device, loaded from bytes that live as long.
class loaded_module {
 public:
  loaded_module(std::shared_ptr<sy::device_driver> device, std::vector<std::byte> image,
                const std::string& name)
      : device_{std::move(device)}, image_{std::move(image)}, module_{device_->load(image_, name)} {}
  loaded_module(const loaded_module&) = delete;
  loaded_module& operator=(const loaded_module&) = delete;
  ~loaded_module() { device_->unload(module_); }
  [[nodiscard]] sy::function_handle operator[](const std::string& kernel) const {
    return device_->find(module_, kernel);
  }

 private:
  std::shared_ptr<sy::device_driver> device_;
  std::vector<std::byte> image_;
  sy::module_handle module_;
};

/// 0, 1, 2, ...
inline std::vector<float> counted(std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(i);
  return out;
}

/// Whether y begins with a x.
inline bool is_scaled(const std::vector<float>& y, const std::vector<float>& x, float a) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (y[i] != a * x[i]) return false;
  }
  return true;
}

/// y = a x by a driver on a stream; whether the result is right. `Buffer`: memory of that device.
template <class Buffer>
bool scales(sy::device_driver& driver, sy::function_handle function, sy::stream on, float a) {
  const auto values = counted(1000);
  const Buffer x{values};
  const Buffer y{std::vector<float>(values.size(), NAN)};
  float* const out = y.get();
  const float* const in = x.get();
  const int n = 1000;
  auto parameters = pointers(out, in, a, n);
  const int code = driver.launch(function, {.grid = {8}, .block = {128}}, parameters.data(), on);
  if (code != 0) {
    WARN(driver.describe(code));
    return false;
  }
  return is_scaled(y.read(), values, a);
}

/// What a struct, narrow values and a wide one look like to the kernel `mixed`; `Buffer`: of doubles.
template <class Buffer>
void check_mixed(sy::device_driver& driver, sy::function_handle mixed) {
  struct mixed_value {
    int first;
    double second;
    char third;
  };
  const Buffer out{std::vector<double>(6)};
  const char tag = 7;
  const mixed_value value{-11, 2.5, 13};
  const long long number = 1LL << 40;
  double* const address = out.get();
  const bool flag = true;
  auto parameters = pointers(tag, value, number, address, flag);
  REQUIRE(driver.launch(mixed, {}, parameters.data(), nullptr) == 0);
  CHECK(out.read() == std::vector<double>{7, -11, 2.5, 13, static_cast<double>(number), 1});
}

/// The kernel as an operator.
struct scale {
  static constexpr std::string_view name = "scale";
  struct arguments {
    float* y = nullptr;
    const float* x = nullptr;
    float a = 1;
    std::int32_t n = 0;
  };
  static constexpr auto fields = sy::fields<&arguments::y, &arguments::x, &arguments::a, &arguments::n>;
  static constexpr auto axes = sy::axes(sy::size_axis<&arguments::n>());
};

/// Its files. Above 5000 elements by way of a buffer: fill, scale into the buffer, and from there with 1.
inline void put_scale(const cuda_test::written_files& into, std::string_view blob) {
  using nlohmann::json;
  const json one{{"kernel", "scale"},
                 {"grid", {"ceil_div(n, 128)", 1, 1}},
                 {"block", {128, 1, 1}},
                 {"parameters", {"y", "x", "a", "n"}}};
  json first = one;
  first["parameters"] = {"buffer", "x", "a", "n"};
  json second = one;
  second["parameters"] = {"y", {{"pointer", "x"}}, {{"f32", "a"}}, "n"};
  into.put("scale", blob,
           {{{"id", "buffered"},
             {"requires", {"n > 5000"}},
             {"workspace", {{"buffer", "4 * n"}}},
             {"launches", {{{"fill", "buffer"}, {"byte", 255}}, first, second}}},
            {{"id", "plain"}, {"launches", {one}}}});
}

}  // namespace device_test
