// An operator of your own: described in axpy.hpp, implemented in axpy_host.cpp, built from axpy.json, called
// here.
//
//   own_operator FOLDER      FOLDER holds kernels/axpy, built from axpy.json
#include <cstdio>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "axpy.hpp"

int main(int argc, char** argv) {
  namespace sy = switchyard;
  if (argc != 2) {
    std::fprintf(stderr, "usage: own_operator FOLDER\n");
    return 2;
  }
  sy::catalog catalog{{.roots = {argv[1]}, .tables = {}, .default_roots = false}};
  sy::dispatcher<engine::axpy> axpy{catalog, sy::device::host()};

  for (const std::int64_t n : {1000, 1'000'000}) {
    const std::vector<float> x(static_cast<std::size_t>(n), 2.0F);
    std::vector<float> y(static_cast<std::size_t>(n), 1.0F);
    const engine::axpy::arguments call{.a = 3, .x = x.data(), .y = y.data(), .n = n};
    axpy({}, call);
    bool right = true;
    for (const float value : y) right = right && value == 7.0F;
    const sy::explanation why = axpy.explain(call);
    std::printf("n=%lld: %s {%s}, %s: %s\n", static_cast<long long>(n), why.variant.c_str(),
                why.config.c_str(), std::string{to_string(why.chosen.why)}.c_str(),
                right ? "every element is 7" : "WRONG");
    if (!right) return 1;
  }

  // An illegal call throws and runs nothing.
  try {
    axpy({}, {.a = 1, .x = nullptr, .y = nullptr, .n = 10});
  } catch (const sy::call_error& problem) {
    std::printf("%s\n", problem.what());
  }
}
