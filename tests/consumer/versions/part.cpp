// SPDX-License-Identifier: MIT
// An engine's or a plug-in's use of the library: each is compiled with headers of another version, and with
// symbols that anyone may see. PART names its function.
#include <cstdio>

#include <switchyard/catalog.hpp>
#include <switchyard/device.hpp>
#include <switchyard/version.hpp>

extern "C" int PART() {
  switchyard::catalog_options options;
  options.roots = {"/nowhere"};
  options.settings = {};
  const switchyard::catalog catalog{options};
  const bool is_right =
      catalog.roots().front() == "/nowhere" && switchyard::device::host().properties().backend == "host";
  std::printf("%d.%d %s\n", SWITCHYARD_VERSION_MAJOR, SWITCHYARD_VERSION_MINOR,
              is_right ? "works" : "is wrong");
  return is_right ? 0 : 1;
}
