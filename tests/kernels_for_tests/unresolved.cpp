// SPDX-License-Identifier: MIT
// A shared object that needs a function nobody has.
#include <cstdint>

#include "export.hpp"

extern "C" void switchyard_function_that_nobody_has();

namespace {

void call_it(const switchyard::host::block& /*where*/, std::int32_t* /*out*/, std::int32_t /*value*/) {
  switchyard_function_that_nobody_has();
}

}  // namespace

EXPORT_KERNEL(stamp, call_it);
