// SPDX-License-Identifier: MIT
// Built twice, and linked into one program: what is inline in the headers must be one thing in both, in one
// executable and in two shared libraries.
#include "all.hpp"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

extern "C" __attribute__((visibility("default"))) const switchyard::operator_description* JOIN(SIDE,
                                                                                               describe)() {
  return &switchyard::describe<switchyard::operators::rotary>();
}
