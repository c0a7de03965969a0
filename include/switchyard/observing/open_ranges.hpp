// SPDX-License-Identifier: MIT
// Opens the range library of an installed profiler at run time; it stays open.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/ranges.hpp>

namespace switchyard {
inline namespace v0 {

/// The ranges of an installed profiler library, opened at run time: "nvtx" (libnvToolsExt.so.1, which CUDA
/// has up to 12), "roctx" (librocprofiler-sdk-roctx.so.1, libroctx64.so.4), "1" for the first of them that is
/// there, or a library that has nvtxRangePushA and nvtxRangePop, or roctxRangePushA and roctxRangePop. Throws
/// driver_error driver_absent.
[[nodiscard]] range_hooks open_ranges(const std::string& which);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/open_ranges_impl.hpp>
#endif
