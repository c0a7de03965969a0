// SPDX-License-Identifier: MIT
// Kernels that the library cannot run: one whose description is of a later version, one that has no code.

#include "export.hpp"

namespace {

void ignore(const switchyard::host::block& /*where*/, const void* const* /*parameters*/) {}

}  // namespace

extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel stamp;
const switchyard::host::kernel stamp{2, 0, nullptr, &ignore};
extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel hollow;
const switchyard::host::kernel hollow{1, 0, nullptr, nullptr};
