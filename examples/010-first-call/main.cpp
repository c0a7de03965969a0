// The shortest program: open a catalog, make a dispatcher for an operator, call it.
#include <cstdio>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  sy::catalog catalog;  // the kernels and tables on this machine
  sy::dispatcher<sy::operators::softmax> softmax{catalog, sy::device::host()};

  const std::vector<float> x{1, 2, 3, 4};  // one row of four columns
  std::vector<float> y(x.size());
  const sy::operators::softmax::arguments call{
      .x = x.data(), .out = y.data(), .rows = 1, .columns = 4, .x_stride_row = 4, .out_stride_row = 4};
  softmax({}, call);  // chooses a kernel, loads it and launches it on the default stream

  for (const float each : y) std::printf("%.3f\n", static_cast<double>(each));
  std::printf("%s\n", to_string(softmax.explain(call)).c_str());
}
