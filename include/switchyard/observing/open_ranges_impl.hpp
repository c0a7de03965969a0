// SPDX-License-Identifier: MIT
// The bodies of open_ranges.hpp.
#pragma once

#include <array>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/open_ranges.hpp>
#include <switchyard/observing/ranges.hpp>
#include <switchyard/threads/lock.hpp>

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

/// Keeps functions for the rest of the process, as their library is kept: any thread may be in a range.
SWITCHYARD_COLD range_functions* keep_functions(const range_functions& found) {
  static mutex guard;
  static auto* const all =
      new std::vector<std::unique_ptr<range_functions>>;  // NOLINT(cppcoreguidelines-owning-memory)
  const locked lock{guard};
  for (const auto& known : *all) {
    if (known->push == found.push && known->pop == found.pop) return known.get();
  }
  return all->emplace_back(std::make_unique<range_functions>(found)).get();
}

}  // namespace detail

SWITCHYARD_COLD range_hooks open_ranges(const std::string& which) {
  std::vector<std::string> libraries;
  const bool is_any = which == "1";
  const auto add = [&libraries](std::string library) { libraries.push_back(std::move(library)); };
  if (is_any || which == "nvtx") add("libnvToolsExt.so.1");
  if (is_any || which == "roctx") {
    add("librocprofiler-sdk-roctx.so.1");
    add("libroctx64.so.4");
  }
  if (libraries.empty()) libraries.push_back(which);
  std::string tried;
  for (const std::string& library : libraries) {
    const detail::range_functions found = detail::find_ranges(library);
    if (found.push != nullptr) {
      return {[](void* mine, const char* name) noexcept {
                (void)static_cast<detail::range_functions*>(mine)->push(name);
              },
              [](void* mine) noexcept { (void)static_cast<detail::range_functions*>(mine)->pop(); },
              detail::keep_functions(found)};
    }
    tried += (tried.empty() ? "" : ", ") + library;
  }
  throw driver_error{error_code::driver_absent,
                     "no profiler's library of ranges can be used (tried " + tried +
                         "); install it, or set catalog_options::ranges to functions of your own"};
}

}  // namespace v0
}  // namespace switchyard
