// A kernel of your own for an operator of the library: written in softmax_online.cpp, described in
// softmax.json.
//
//   own_kernels FOLDER      FOLDER holds kernels/softmax, built from softmax.json
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using sy::operators::softmax;

void run(sy::catalog& catalog, const char* title) {
  sy::dispatcher<softmax> run{catalog, sy::device::host()};
  const std::vector<float> x(300, 2.0F);
  std::vector<float> y(x.size());
  const softmax::arguments call{
      .x = x.data(), .out = y.data(), .rows = 3, .columns = 100, .x_stride_row = 100, .out_stride_row = 100};
  run({}, call);
  bool right = true;
  for (const float value : y) right = right && std::abs(value - 0.01F) < 1e-6F;
  const sy::explanation why = run.explain(call);
  std::printf("%s: %s, %s: %s\n", title, why.variant.c_str(), std::string{to_string(why.chosen.why)}.c_str(),
              right ? "every element is 0.01" : "WRONG");

  const softmax::arguments half{.x = x.data(),
                                .out = y.data(),
                                .rows = 3,
                                .columns = 100,
                                .x_stride_row = 100,
                                .out_stride_row = 100,
                                .dtype = sy::dtype::bf16};
  std::printf("%s: %s for bf16, which my kernel does not serve\n", title, run.explain(half).variant.c_str());
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
    const std::vector<float> x(8);
    std::vector<float> y(8);
    only_mine({}, {.x = x.data(),
                   .out = y.data(),
                   .rows = 1,
                   .columns = 8,
                   .x_stride_row = 8,
                   .out_stride_row = 8,
                   .dtype = sy::dtype::f16});
  } catch (const sy::call_error& problem) {
    std::printf("forced: %s\n", problem.what());
  }
}
