// A CUDA device whose time in the driver is told from the library's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>

namespace cuda_test {

namespace sy = switchyard;

class timed_driver final : public sy::device_driver {
 public:
  explicit timed_driver(std::shared_ptr<sy::device_driver> of) : of_{std::move(of)} {}

  double microseconds = 0;  ///< spent in what loads and launches

  [[nodiscard]] const sy::device_properties& properties() const noexcept override {
    return of_->properties();
  }
  [[nodiscard]] sy::module_handle load(std::span<const std::byte> image, const std::string& name) override {
    const timed scope{*this};
    return of_->load(image, name);
  }
  void unload(sy::module_handle module) noexcept override { of_->unload(module); }
  [[nodiscard]] sy::function_handle find(sy::module_handle module, const std::string& kernel) override {
    const timed scope{*this};
    return of_->find(module, kernel);
  }
  [[nodiscard]] bool parameters(sy::function_handle function, std::vector<sy::parameter_slot>& out) override {
    const timed scope{*this};
    return of_->parameters(function, out);
  }
  void configure(sy::function_handle function, const sy::launch_geometry& geometry) override {
    const timed scope{*this};
    of_->configure(function, geometry);
  }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream stream) noexcept override {
    const timed scope{*this};
    return of_->launch(function, geometry, parameters, stream);
  }
  [[nodiscard]] sy::status fill(void* address, std::uint8_t byte, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return of_->fill(address, byte, bytes, stream);
  }
  [[nodiscard]] sy::status copy(void* to, const void* from, std::size_t bytes,
                                sy::stream stream) noexcept override {
    return of_->copy(to, from, bytes, stream);
  }
  [[nodiscard]] sy::status synchronize(sy::stream stream) noexcept override {
    return of_->synchronize(stream);
  }
  [[nodiscard]] sy::event_handle create_event() override { return of_->create_event(); }
  void destroy_event(sy::event_handle event) noexcept override { of_->destroy_event(event); }
  [[nodiscard]] sy::status record(sy::event_handle event, sy::stream stream) noexcept override {
    return of_->record(event, stream);
  }
  [[nodiscard]] sy::status elapsed(sy::event_handle from, sy::event_handle to,
                                   double& microseconds_between) noexcept override {
    return of_->elapsed(from, to, microseconds_between);
  }
  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream stream) noexcept override {
    return of_->allocate(bytes, stream);
  }
  void release(void* address, sy::stream stream) noexcept override { of_->release(address, stream); }
  [[nodiscard]] sy::status encode(const sy::tensor_map_request& request, void* map) noexcept override {
    return of_->encode(request, map);
  }
  [[nodiscard]] bool capturing(sy::stream stream) const noexcept override { return of_->capturing(stream); }
  [[nodiscard]] bool owns(sy::stream stream) const noexcept override { return of_->owns(stream); }
  [[nodiscard]] std::string describe(sy::status code) const override { return of_->describe(code); }

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

  std::shared_ptr<sy::device_driver> of_;
};

}  // namespace cuda_test
