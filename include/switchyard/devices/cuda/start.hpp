// Starts a kernel: the plain launch call, or the one with attributes for clusters, cooperative and
// programmatic dependent launches.
#pragma once

#include <array>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/driver.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

// A function of its own, so that other launches need no stack space for attributes.
[[nodiscard, gnu::noinline]] inline status start_with_attributes(const api& library, CUfunc_st* function,
                                                                 const launch_geometry& geometry,
                                                                 void** parameters, CUstream_st* on,
                                                                 bool programmatic) noexcept {
  std::array<launch_attribute, 3> attributes;
  unsigned count = 0;
  if (!(geometry.cluster == dim3{})) {
    attributes[count].id = launch_attribute_id::cluster_dimension;
    attributes[count++].value.cluster = {geometry.cluster.x, geometry.cluster.y, geometry.cluster.z};
  }
  if (geometry.cooperative) {
    attributes[count].id = launch_attribute_id::cooperative;
    attributes[count++].value.flag = 1;
  }
  // It only permits an overlap: a device without this feature runs the kernel correctly.
  if (geometry.programmatic_dependent_launch && programmatic) {
    attributes[count].id = launch_attribute_id::programmatic_stream_serialization;
    attributes[count++].value.flag = 1;
  }
  const launch_config config{geometry.grid.x,       geometry.grid.y,
                             geometry.grid.z,       geometry.block.x,
                             geometry.block.y,      geometry.block.z,
                             geometry.shared_bytes, on,
                             attributes.data(),     count};
  return library.launch_kernel_ex(&config, function, parameters, nullptr);
}

/// The context is current, or the stream carries it. `programmatic`: whether the device knows programmatic
/// dependent launches.
[[nodiscard]] inline status start(const api& library, CUfunc_st* function, const launch_geometry& geometry,
                                  void** parameters, CUstream_st* on, bool programmatic) noexcept {
  if (geometry.cluster == dim3{} && !geometry.cooperative && !geometry.programmatic_dependent_launch)
      [[likely]] {
    return library.launch_kernel(function, geometry.grid.x, geometry.grid.y, geometry.grid.z,
                                 geometry.block.x, geometry.block.y, geometry.block.z, geometry.shared_bytes,
                                 on, parameters, nullptr);
  }
  return start_with_attributes(library, function, geometry, parameters, on, programmatic);
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
