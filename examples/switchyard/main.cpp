// SPDX-License-Identifier: MIT
// The `switchyard` command-line tool, for the built-in operators. The tool itself is a library, so that a
// program can add operators of its own: see switchyard/tool/main.hpp.
#include <switchyard/tool/main.hpp>

int main(int argc, char** argv) {
  return switchyard::tool::main(argc, argv);
}
