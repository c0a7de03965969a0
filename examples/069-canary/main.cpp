// SPDX-License-Identifier: MIT
// A new table for a share of the problems. Which those are is a hash of the problem, the same on every host;
// the share grows as the table proves itself, and 0 takes it back, while calls run.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using sy::operators::softmax;

softmax::arguments rows(float* memory, std::int64_t count) {
  const sy::tensor x{memory, sy::dtype::f32, {count, 4}};
  return softmax::call(x, x);
}

}  // namespace

int main() {
  std::vector<float> memory(4000);
  sy::catalog_options options;
  options.canary = {.tables = {"new.json"}, .share = 0.1};
  {  // A table that names the variant that serves without it: what is shown here is who decides.
    sy::catalog shipped;
    const std::string variant =
        sy::dispatcher<softmax>{shipped, sy::device::host()}.explain(rows(memory.data(), 1)).variant;
    std::ofstream{"new.json"} << R"({"schema": "switchyard.table/1", "operator": "softmax",
      "device": {"backend": "host"}, "groups": [{"type": {"dtype": "f32"}, "axes": ["rows", "columns"], "rows": [
      {"at": [1, 4], "times_us": {")"
                              << variant << R"(": 1}}, {"at": [1000, 4], "times_us": {")" << variant
                              << R"(": 9}}]}]})";
  }
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<softmax> run{catalog, sy::device::host()};
  const auto count = [&] {
    int out = 0;
    for (std::int64_t i = 1; i <= 1000; ++i)
      out += run.explain(rows(memory.data(), i)).table == "new.json" ? 1 : 0;
    return out;
  };
  std::printf("a share of 0.1: %d of 1000 sizes\n", count());
  catalog.set_canary_share(0.5);
  std::printf("a share of 0.5: %d of 1000 sizes\n", count());
  catalog.set_canary_share(0);
  std::printf("taken back: %d\n", count());
}
