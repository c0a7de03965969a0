// SPDX-License-Identifier: MIT
// A kernel of your own for an operator of the library: written in softmax_online.cpp, described in
// softmax.json.
//
//   own_kernels FOLDER      FOLDER holds kernels/softmax, built from softmax.json
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using sy::operators::softmax;

void run(sy::catalog& catalog, const char* title) {
  sy::dispatcher<softmax> run{catalog, sy::device::host()};
  std::vector<float> memory(300, 2.0F);
  const sy::tensor x{std::span{memory}, {3, 100}};
  const softmax::arguments call = softmax::call(x, x);
  run({}, call);
  bool right = true;
  for (const float value : memory) right = right && std::abs(value - 0.01F) < 1e-6F;
  const sy::explanation why = run.explain(call);
  std::printf("%s: %s, %s: %s\n", title, why.variant.c_str(), std::string{to_string(why.chosen.why)}.c_str(),
              right ? "every element is 0.01" : "WRONG");

  const sy::tensor half{memory.data(), sy::dtype::bf16, {3, 100}};
  std::printf("%s: %s for bf16, which my kernel does not serve\n", title,
              run.explain(softmax::call(half, half)).variant.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: own_kernels FOLDER\n");
    return 2;
  }
  // My folder first: without measurements, the first variant in search order wins.
  sy::catalog both{{.roots = {argv[1]}, .tables = {}}};
  run(both, "mine and the library's");

  // What SWITCHYARD_FORCE=softmax:my_online does, for this catalog only.
  sy::catalog_options options{.roots = {argv[1]}, .tables = {}};
  options.settings.forced = {{"softmax", "my_online"}};
  sy::catalog forced{std::move(options)};
  sy::dispatcher<softmax> only_mine{forced, sy::device::host()};
  try {
    std::vector<float> memory(8);
    const sy::tensor x{memory.data(), sy::dtype::f16, {1, 8}};
    only_mine({}, softmax::call(x, x));
  } catch (const sy::call_error& problem) {
    std::printf("forced: %s\n", problem.what());
  }
}
