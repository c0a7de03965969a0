// SPDX-License-Identifier: MIT
// A device that passes every operation on to another one. Derive from it to change, count or time some of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Passes everything on to `driver()`.
class forwarding_driver : public device_driver {
 public:
  explicit forwarding_driver(std::shared_ptr<device_driver> driver) noexcept : driver_{std::move(driver)} {}

  [[nodiscard]] const device_properties& properties() const noexcept override {
    return driver_->properties();
  }
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    return driver_->load(image, name);
  }
  void unload(module_handle module) noexcept override { driver_->unload(module); }
  [[nodiscard]] function_handle find(module_handle module, const std::string& kernel) override {
    return driver_->find(module, kernel);
  }
  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    return driver_->parameters(function, out);
  }
  void configure(function_handle function, const launch_geometry& geometry) override {
    driver_->configure(function, geometry);
  }
  [[nodiscard]] bool accepts_grid(const launch_geometry& geometry) const noexcept override {
    return driver_->accepts_grid(geometry);
  }
  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream on) noexcept override {
    return driver_->launch(function, geometry, parameters, on);
  }
  [[nodiscard]] status try_launch(function_handle function, const launch_geometry& geometry,
                                  void** parameters, stream on) noexcept override {
    return launch(function, geometry, parameters, on);
  }
  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream on) noexcept override {
    return driver_->fill(address, byte, bytes, on);
  }
  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream on) noexcept override {
    return driver_->copy(to, from, bytes, on);
  }
  [[nodiscard]] status synchronize(stream on) noexcept override { return driver_->synchronize(on); }
  [[nodiscard]] event_handle create_event() override { return driver_->create_event(); }
  void destroy_event(event_handle event) noexcept override { driver_->destroy_event(event); }
  [[nodiscard]] status record(event_handle event, stream on) noexcept override {
    return driver_->record(event, on);
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    return driver_->elapsed(from, to, microseconds);
  }
  [[nodiscard]] status elapsed_if_over(event_handle from, event_handle to, bool& is_over,
                                       double& microseconds) noexcept override {
    return driver_->elapsed_if_over(from, to, is_over, microseconds);
  }
  [[nodiscard]] void* allocate(std::size_t bytes, stream on) noexcept override {
    return driver_->allocate(bytes, on);
  }
  void release(void* address, stream on) noexcept override { driver_->release(address, on); }
  [[nodiscard]] status encode(const tensor_map_request& request, void* map) noexcept override {
    return driver_->encode(request, map);
  }
  [[nodiscard]] bool capturing(stream on) const noexcept override { return driver_->capturing(on); }
  [[nodiscard]] bool has_graphs() const noexcept override { return driver_->has_graphs(); }
  [[nodiscard]] stream create_stream() override { return driver_->create_stream(); }
  void destroy_stream(stream on) noexcept override { driver_->destroy_stream(on); }
  [[nodiscard]] status begin_graph(stream on) noexcept override { return driver_->begin_graph(on); }
  [[nodiscard]] status end_graph(stream on, graph_handle& graph) noexcept override {
    return driver_->end_graph(on, graph);
  }
  [[nodiscard]] status launch_graph(graph_handle graph, stream on) noexcept override {
    return driver_->launch_graph(graph, on);
  }
  void destroy_graph(graph_handle graph) noexcept override { driver_->destroy_graph(graph); }
  [[nodiscard]] bool owns(stream on) const noexcept override { return driver_->owns(on); }
  [[nodiscard]] std::string describe(status code) const override { return driver_->describe(code); }

 protected:
  [[nodiscard]] device_driver& driver() const noexcept { return *driver_; }

 private:
  std::shared_ptr<device_driver> driver_;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
