// SPDX-License-Identifier: MIT
// An engine in a process of its own: runs `stamp` at the sequence lengths of its command line and prints
// which variant ran. The environment steers it.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <switchyard/switchyard.hpp>

#include "test_operators.hpp"

int main(int argc, char** argv) {
  try {
    switchyard::catalog catalog;
    switchyard::dispatcher<test::stamp> on{catalog, switchyard::device::host()};
    for (int i = 1; i < argc; ++i) {
      const int number = test::run(on, {.seqlen = std::strtoll(argv[i], nullptr, 10)});
      std::printf("stamp %d\n", number);
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
