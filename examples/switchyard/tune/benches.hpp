// SPDX-License-Identifier: MIT
// The operators that this program can measure: the built-in ones, and those of the program that links the
// tool (switchyard/tool/main.hpp).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/tool/main.hpp>
#include <switchyard/tune/measuring/bench.hpp>

namespace tool {

struct known_bench {
  std::string_view operator_name;
  std::unique_ptr<switchyard::tune::bench> (*make)(switchyard::catalog&, const switchyard::device&);
};

/// Defined in tune/bench_of.hpp. For a built-in operator it is instantiated in the source file of its
/// workload, because it compiles slowly.
template <switchyard::operator_type Operator>
[[nodiscard]] known_bench bench_of();

/// Adds those of a program's own operators that have a workload.
void add_benches(std::span<const switchyard::tool::own_operator> own);

/// Null for an operator that cannot be measured.
[[nodiscard]] const known_bench* find_bench(std::string_view operator_name);

/// The names of those that can.
[[nodiscard]] std::vector<std::string_view> bench_names();

}  // namespace tool
