// SPDX-License-Identifier: MIT
// In service: after prepare(), no call should load a kernel, meet a new problem, or find no measured rows. A
// sealed catalog counts the calls that do, and warns of them, or refuses them.
#include <cstdio>
#include <span>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  using sy::operators::softmax;
  sy::catalog catalog;
  sy::dispatcher<softmax> run{catalog, sy::device::host()};

  std::vector<float> memory(64);
  const auto rows = [&memory](std::int64_t count) {
    const sy::tensor x{std::span{memory}.first(static_cast<std::size_t>(4 * count)), {count, 4}};
    return softmax::call(x, x);
  };
  run.prepare(rows(1), {{"rows", 1, 16}});  // loads what any of these calls needs
  run.prepare(rows(2));                     // and plans this one
  catalog.seal();
  run({}, rows(2));
  run({}, rows(3));
  const sy::seal_report found = catalog.sealed();
  std::printf("%zu call was not planned; %zu kernels were loaded\n", static_cast<std::size_t>(found.plans),
              static_cast<std::size_t>(found.loads));

  catalog.seal({.plan = sy::seal_action::refuse});
  try {
    run({}, rows(4));
  } catch (const sy::call_error& problem) {
    std::printf("%s\n", problem.what());
  }
}
