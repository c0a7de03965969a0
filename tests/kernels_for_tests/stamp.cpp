// SPDX-License-Identifier: MIT
// Writes a number that a variant's config gives, so that a test sees which variant ran, and from which blob.
#include <cstdint>

#include "export.hpp"

namespace {

void write_stamp(const switchyard::host::block& /*where*/, std::int32_t* out, std::int32_t value) {
  *out = value + BIAS;
}

}  // namespace

EXPORT_KERNEL(stamp, write_stamp);
