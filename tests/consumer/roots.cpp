// SPDX-License-Identifier: MIT
// Prints the folders of kernels and tables that a catalog of this program searches, a line each.
#include <cstdio>
#include <string>

#include <switchyard/files/data_folder.hpp>
#include <switchyard/files/search_path.hpp>

int main() {
  for (const std::string& root : switchyard::installed_roots(std::string{switchyard::data_folder}))
    std::puts(root.c_str());
}
