// SPDX-License-Identifier: MIT
// A plug-in that has the library to itself: it launches on the CPU, and is unloaded.
#include <chrono>

#include <switchyard/switchyard.hpp>

extern "C" __attribute__((visibility("default"))) int use_switchyard() {
  namespace sy = switchyard;
  sy::catalog_options options;
  options.default_roots = false;
  sy::catalog catalog{options};
  catalog.watch(std::chrono::milliseconds{1});
  const sy::dispatcher<sy::operators::rotary> run{catalog, sy::device::host()};
  return 0;
}
