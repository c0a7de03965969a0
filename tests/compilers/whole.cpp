// SPDX-License-Identifier: MIT
// The whole library in one program: by .ci/compilers it is compiled with every compiler, standard and
// standard library. With the argument `kernels` it calls softmax with those of SWITCHYARD_PATH; else it needs
// none, and the call must be refused.
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include <switchyard/switchyard.hpp>

int main(int count, char** arguments) {
  namespace sy = switchyard;
  const bool has_kernels = count > 1 && std::string_view{arguments[1]} == "kernels";
  sy::catalog_options options;
  if (!has_kernels) options.default_roots = false;
  sy::catalog catalog{options};
  sy::dispatcher<sy::operators::softmax> softmax{catalog, sy::device::host()};
  std::vector<float> memory{1, 2, 3, 4};
  const sy::tensor x{std::span{memory}, {1, 4}};
  const auto call = sy::operators::softmax::call(x, x);
  try {
    softmax({}, call);
  } catch (const sy::error& problem) {
    std::puts(problem.what());
    return has_kernels || problem.code() != sy::error_code::no_variant ? 1 : 0;
  }
  std::puts(to_string(softmax.explain(call)).c_str());
  return has_kernels && std::fabs(memory[3] - 0.6439143F) < 1e-6F ? 0 : 1;
}
