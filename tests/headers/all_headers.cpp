// SPDX-License-Identifier: MIT
// Compiled once, and linked several times under other names: what is inline in the headers must be one thing
// in one executable, and in a program with two shared libraries.
#include "all.hpp"

extern "C" __attribute__((visibility("default"))) const switchyard::operator_description* described_here() {
  return &switchyard::describe<switchyard::operators::rotary>();
}
