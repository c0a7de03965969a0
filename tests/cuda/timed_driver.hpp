// SPDX-License-Identifier: MIT
// A CUDA device whose time in the driver is told from the library's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <switchyard/tune/measuring/forwarding_driver.hpp>

namespace cuda_test {

namespace sy = switchyard;

class timed_driver final : public sy::tune::forwarding_driver {
 public:
  using forwarding_driver::forwarding_driver;

  double microseconds = 0;  ///< spent in what loads and launches

  [[nodiscard]] sy::module_handle load(std::span<const std::byte> image, const std::string& name) override {
    const timed scope{*this};
    return driver().load(image, name);
  }
  [[nodiscard]] sy::function_handle find(sy::module_handle module, const std::string& kernel) override {
    const timed scope{*this};
    return driver().find(module, kernel);
  }
  [[nodiscard]] bool parameters(sy::function_handle function, std::vector<sy::parameter_slot>& out) override {
    const timed scope{*this};
    return driver().parameters(function, out);
  }
  void configure(sy::function_handle function, const sy::launch_geometry& geometry) override {
    const timed scope{*this};
    driver().configure(function, geometry);
  }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream stream) noexcept override {
    const timed scope{*this};
    return driver().launch(function, geometry, parameters, stream);
  }

 private:
  /// Adds the time of a scope.
  class timed {
   public:
    explicit timed(timed_driver& to) : to_{to} {}
    timed(const timed&) = delete;
    timed& operator=(const timed&) = delete;
    ~timed() {
      to_.microseconds +=
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_).count();
    }

   private:
    timed_driver& to_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };
};

}  // namespace cuda_test
