// A kernel whose description is of a later version than the library runs.
#include <cstdint>

#include "export.hpp"

namespace {

void ignore(const switchyard::host::block& /*where*/, const void* const* /*parameters*/) {}

}  // namespace

extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel stamp;
const switchyard::host::kernel stamp{2, 0, nullptr, &ignore};
