// SPDX-License-Identifier: MIT
// The `switchyard` command-line tool as a library, for programs with operators of their own:
//
//   #include <switchyard/tool/main.hpp>
//   int main(int argc, char** argv) { return switchyard::tool::main<axpy>(argc, argv); }
//
// Link it with switchyard::tool. The program has every command for these operators and for the built-in ones.
// `tune` and `bench` also need a tune::workload<axpy>, which must be complete here.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include <switchyard/files/data_folder.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tune/measuring/operator_bench.hpp>

namespace switchyard {
inline namespace v0 {

namespace tool {

/// An operator that a program adds to the tool. One that has a built-in operator's name takes its place.
struct own_operator {
  const operator_description* description = nullptr;
  /// Null: it cannot be measured.
  std::unique_ptr<tune::bench> (*make_bench)(catalog& files, const device& on) = nullptr;
};

/// Runs a command line; returns the exit status. `own` must live as long as the program. `data` is where the
/// installation has its kernels and tables, which the compiled library does not know.
[[nodiscard]] int run(int argc, char** argv, std::span<const own_operator> own, std::string_view data);

namespace detail {

template <operator_type Operator>
[[nodiscard]] own_operator describe_own() {
  own_operator out{&describe<Operator>(), nullptr};
  if constexpr (requires { sizeof(tune::workload<Operator>); }) {
    out.make_bench = [](catalog& files, const device& on) {
      return std::unique_ptr<tune::bench>{std::make_unique<tune::operator_bench<Operator>>(files, on)};
    };
  }
  return out;
}

}  // namespace detail

/// The tool with these operators beside the built-in ones; returns the exit status.
template <operator_type... Own>
[[nodiscard]] int main(int argc, char** argv) {
  static const std::array<own_operator, sizeof...(Own)> own{detail::describe_own<Own>()...};
  return run(argc, argv, own, data_folder);
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
