// SPDX-License-Identifier: MIT
// How an operator with a workload is measured.
#pragma once

#include <memory>

#include "tune/benches.hpp"

namespace tool {

template <switchyard::operator_type Operator>
known_bench bench_of() {
  return {Operator::name, [](switchyard::catalog& files, const switchyard::device& device) {
            return std::unique_ptr<switchyard::tune::bench>{
                std::make_unique<switchyard::tune::operator_bench<Operator>>(files, device)};
          }};
}

}  // namespace tool
