// SPDX-License-Identifier: MIT
// The bodies of open_ranges.hpp.
#pragma once

#include <array>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/open_ranges.hpp>
#include <switchyard/observing/ranges.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// The functions of a profiler's library. Both APIs have them alike; each returns the depth.
struct range_functions {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};

SWITCHYARD_COLD range_functions find_ranges(const std::string& library) {
  range_functions out;
  // Stays open, as drivers do: a profiler may have threads in it.
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return out;
  for (const char* const api : {"nvtx", "roctx"}) {
    const std::string name{api};
    out.push = reinterpret_cast<int (*)(const char*)>(::dlsym(opened, (name + "RangePushA").c_str()));
    out.pop = reinterpret_cast<int (*)()>(::dlsym(opened, (name + "RangePop").c_str()));
    if (out.push != nullptr && out.pop != nullptr) return out;
  }
  return {};
}

}  // namespace detail

SWITCHYARD_COLD range_hooks open_ranges(const std::string& which) {
  std::vector<std::string> libraries;
  const bool is_any = which == "1";
  if (is_any || which == "nvtx") libraries.emplace_back("libnvToolsExt.so.1");
  if (is_any || which == "roctx")
    libraries.insert(libraries.end(), {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"});
  if (libraries.empty()) libraries.push_back(which);
  std::string tried;
  for (const std::string& each : libraries) {
    const detail::range_functions found = detail::find_ranges(each);
    if (found.push != nullptr) {
      auto* const kept = new detail::range_functions{found};  // NOLINT(cppcoreguidelines-owning-memory)
      return {[](void* mine, const char* name) noexcept {
                (void)static_cast<detail::range_functions*>(mine)->push(name);
              },
              [](void* mine) noexcept { (void)static_cast<detail::range_functions*>(mine)->pop(); }, kept};
    }
    tried += (tried.empty() ? "" : ", ") + each;
  }
  throw driver_error{error_code::driver_absent,
                     "no profiler's library of ranges can be used (tried " + tried +
                         "); install it, or set catalog_options::ranges to functions of your own"};
}

}  // namespace v0
}  // namespace switchyard
