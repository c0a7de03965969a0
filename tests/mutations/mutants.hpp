// SPDX-License-Identifier: MIT
// Chooses at run time which mutation of a rewritten header is in force. mutate.py rewrites `a < b` to
// `(switchyard_mutants::on(17) ? (a <= b) : (a < b))`, so that one build holds all mutants.
//
// MUTANT is the number of the one in force; without it the code is the original. MUTANTS_REACHED names a file
// of one byte for each mutant, which becomes 1 where the mutant was reached.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace switchyard_mutants {

struct state {
  int chosen = -1;
  int count = 0;
  unsigned char* reached = nullptr;

  state() noexcept {
    if (const char* const number = std::getenv("MUTANT")) chosen = std::atoi(number);
    const char* const path = std::getenv("MUTANTS_REACHED");
    const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    struct stat about {};
    if (fstat(file, &about) == 0 && about.st_size > 0) {
      void* const at =
          mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (at != MAP_FAILED) {
        reached = static_cast<unsigned char*>(at);
        count = static_cast<int>(about.st_size);
      }
    }
    close(file);
  }
};

inline bool is_chosen(int mutant) noexcept {
  static const state now;
  if (mutant < now.count) now.reached[mutant] = 1;
  return mutant == now.chosen;
}

constexpr bool on(int mutant) noexcept {
  if (__builtin_is_constant_evaluated()) return false;
  return is_chosen(mutant);
}

}  // namespace switchyard_mutants
