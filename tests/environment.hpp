// SPDX-License-Identifier: MIT
// The environment variables that steer tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace switchyard::test {

/// Its value; null where it is not set.
[[nodiscard]] inline const char* variable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no test sets variables beside other threads
}

/// The value of one that the test is run with.
[[nodiscard]] inline std::string required_variable(const char* name) {
  const char* const value = variable(name);
  if (value == nullptr) throw std::runtime_error{std::string{name} + " is not set"};
  return value;
}

[[nodiscard]] inline std::uint32_t number(const char* name, std::uint32_t otherwise) {
  const char* const text = variable(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// Tells the file SWITCHYARD_TEST_RAN, where it is set, that a variant ran: one line for each.
inline void record_variant(std::string_view operation, const std::string& id) {
  static const char* const path = variable("SWITCHYARD_TEST_RAN");
  if (path == nullptr) return;
  static std::ofstream out{path};
  static std::set<std::string> known;
  const std::string line = "variant " + std::string{operation} + ' ' + id;
  if (known.insert(line).second) out << line << std::endl;
}

/// SWITCHYARD_TEST_SEED, to repeat a run, else `otherwise`; printed.
[[nodiscard]] inline std::uint32_t seed_or(std::uint32_t otherwise) {
  const std::uint32_t seed = number("SWITCHYARD_TEST_SEED", otherwise);
  std::printf("SWITCHYARD_TEST_SEED=%u\n", seed);
  return seed;
}

/// The same with another seed each time.
[[nodiscard]] inline std::uint32_t fresh_seed() {
  return seed_or(std::random_device{}());
}

}  // namespace switchyard::test
