// SPDX-License-Identifier: MIT
#include "reproducible.hpp"

#include <functional>
#include <map>

namespace switchyard_torch {

namespace {

thread_local std::map<std::string, std::string, std::less<>> classes;  // by operator; none is empty

}  // namespace

bool is_reproducible_wanted() noexcept {
  return !classes.empty();
}

const std::string& wanted_class(std::string_view op) {
  static const std::string none;
  const auto found = classes.find(op);
  return found == classes.end() ? none : found->second;
}

}  // namespace switchyard_torch

extern "C" {

/// Limits the calling thread's calls of an operator to a reproducible class; "" frees them.
__attribute__((visibility("default"))) void switchyard_torch_set_class(const char* op, const char* of_class) {
  using switchyard_torch::classes;
  if (*of_class == '\0') {
    classes.erase(op);
  } else {
    classes[op] = of_class;
  }
}

/// The class that they are limited to. Valid until the next call of the function above on this thread.
__attribute__((visibility("default"))) const char* switchyard_torch_class(const char* op) {
  return switchyard_torch::wanted_class(op).c_str();
}
}
