// SPDX-License-Identifier: MIT
// The shortest program: open a catalog, make a dispatcher for an operator, call it.
#include <cstdio>
#include <span>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  sy::catalog catalog;  // the kernels and tables on this machine
  sy::dispatcher<sy::operators::softmax> softmax{catalog, sy::device::host()};
  std::vector<float> memory{1, 2, 3, 4};
  const sy::tensor x{std::span{memory}, {1, 4}};  // one row of four columns
  const auto call = sy::operators::softmax::call(x, x);
  softmax({}, call);  // chooses a kernel, loads it and launches it on the default stream

  for (const float value : memory) std::printf("%.3f\n", static_cast<double>(value));
  std::printf("%s\n", to_string(softmax.explain(call)).c_str());
}
