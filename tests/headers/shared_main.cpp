// SPDX-License-Identifier: MIT
// Two shared libraries and the program itself contain the whole library (all_headers.cpp) and agree on an
// operator.
#include <cstdio>

#include <switchyard/operator_description.hpp>

extern "C" const switchyard::operator_description* described_in_main();
extern "C" const switchyard::operator_description* described_in_first();
extern "C" const switchyard::operator_description* described_in_second();

int main() {
  const auto& here = *described_in_main();
  for (const auto* there : {described_in_first(), described_in_second()}) {
    if (there->name != here.name || there->axes.size() != here.axes.size() ||
        there->argument_bytes != here.argument_bytes) {
      std::printf("the descriptions of %s differ\n", here.name.data());
      return 1;
    }
  }
}
