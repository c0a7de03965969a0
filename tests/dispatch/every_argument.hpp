// SPDX-License-Identifier: MIT
// A manifest's variant for any operator, of a kernel that is not there.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <switchyard/operator.hpp>

namespace test {

/// A variant that takes every argument in order.
template <class Operator>
nlohmann::json variant_of_all() {
  nlohmann::json names = nlohmann::json::array();
  for (const auto& field : switchyard::describe<Operator>().fields) names.push_back(std::string{field.name});
  return {{"id", "only"},
          {"launches",
           {{{"blob", "nothing.so"},
             {"kernel", "nothing_" + std::string{Operator::name}},
             {"parameters", names}}}}};
}

}  // namespace test
