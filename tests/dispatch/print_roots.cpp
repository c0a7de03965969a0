// SPDX-License-Identifier: MIT
// Prints the installed roots that a program searches, a line each.
#include <cstdio>
#include <string>

#include <switchyard/files/search_path.hpp>

int main() {
  for (const std::string& root : switchyard::installed_roots()) std::puts(root.c_str());
}
