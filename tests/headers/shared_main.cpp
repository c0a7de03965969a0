// SPDX-License-Identifier: MIT
// Two shared libraries and the program itself include the whole library and agree on an operator.
#include <cstdio>

#include <switchyard/switchyard.hpp>

extern "C" const switchyard::operator_description* first_describe();
extern "C" const switchyard::operator_description* second_describe();

int main() {
  const auto& here = switchyard::describe<switchyard::operators::rotary>();
  for (const auto* there : {first_describe(), second_describe()}) {
    if (there->name != here.name || there->axes.size() != here.axes.size() ||
        there->argument_bytes != here.argument_bytes) {
      std::printf("the descriptions of %s differ\n", here.name.data());
      return 1;
    }
  }
}
