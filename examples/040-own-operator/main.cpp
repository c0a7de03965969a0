// SPDX-License-Identifier: MIT
// An operator of your own: described in axpy.hpp, implemented in axpy_host.cpp, built from axpy.json, called
// here.
//
//   own_operator FOLDER      FOLDER holds kernels/axpy, built from axpy.json
#include <cstdio>
#include <span>
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
    const auto call = engine::axpy::call(sy::const_tensor{std::span{x}}, sy::tensor{std::span{y}}, {.a = 3});
    axpy({}, call);
    bool right = true;
    for (const float value : y) right = right && value == 7.0F;
    const sy::explanation why = axpy.explain(call);
    std::printf("n=%lld: %s {%s}, %s: %s\n", static_cast<long long>(n), why.variant.c_str(),
                why.config.c_str(), std::string{to_string(why.chosen.why)}.c_str(),
                right ? "every element is 7" : "WRONG");
    if (!right) return 1;
  }

  // An illegal call throws and runs nothing: tensors that disagree, and arguments that were set by hand.
  std::vector<float> ten(10);
  std::vector<float> eleven(11);
  try {
    axpy({}, engine::axpy::call(sy::tensor{std::span{ten}}, sy::tensor{std::span{eleven}}, {.a = 1}));
  } catch (const sy::call_error& problem) {
    std::printf("%s\n", problem.what());
  }
  try {
    axpy({}, {.a = 1, .x = nullptr, .y = nullptr, .n = 10});
  } catch (const sy::call_error& problem) {
    std::printf("%s\n", problem.what());
  }
}
