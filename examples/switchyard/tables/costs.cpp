// SPDX-License-Identifier: MIT
#include "tables/costs.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <switchyard/base/dtype.hpp>

namespace sy = switchyard;

namespace tool {

namespace {

/// Axis values by name.
class reader {
 public:
  reader(const sy::operator_description& op, sy::problem_view problem) : op_{op}, problem_{problem} {}

  [[nodiscard]] double operator()(std::string_view axis, double otherwise = 0) const {
    const std::uint32_t found = sy::find_axis(op_, axis);
    return found < op_.axes.size() ? static_cast<double>(problem_[found]) : otherwise;
  }
  [[nodiscard]] bool is(std::string_view axis) const { return (*this)(axis) != 0; }
  [[nodiscard]] std::string_view name(std::string_view axis) const {
    const std::uint32_t found = sy::find_axis(op_, axis);
    if (found >= op_.axes.size()) return {};
    const auto names = op_.axes[found].value_names;
    const auto value = static_cast<std::size_t>(problem_[found]);
    return value < names.size() ? names[value] : std::string_view{};
  }
  [[nodiscard]] double element() const {
    return static_cast<double>(sy::size_of(static_cast<sy::dtype>(static_cast<int>((*this)("dtype")))));
  }

 private:
  const sy::operator_description& op_;
  sy::problem_view problem_;
};

/// Operators over rows x columns: passes over such a matrix, and operations an element.
struct row_cost {
  std::string_view name;
  double passes;
  double residual_passes;
  double operations;
};

constexpr std::array<row_cost, 8> row_costs{{{"gated_activation", 3, 0, 6},
                                             {"gated_activation_backward", 5, 0, 12},
                                             {"rms_norm", 2, 2, 4},
                                             {"rms_norm_backward", 3, 1, 8},
                                             {"layer_norm", 2, 2, 4},
                                             {"layer_norm_backward", 3, 1, 8},
                                             {"softmax", 2, 0, 4},
                                             {"softmax_backward", 3, 0, 4}}};

/// Pairs of a query and a key that a mask leaves.
[[nodiscard]] double pairs(const reader& at) {
  const double queries = at("seqlen_q", 1);
  const double keys = at("seqlen_k");
  const std::string_view mask = at.name("mask");
  if (mask == "causal_top_left") {
    const double seen = std::min(queries, keys);
    return seen * (seen + 1) / 2 + (queries - seen) * keys;
  }
  if (mask == "causal_bottom_right") {
    const double seen = std::min(queries, keys);
    return seen * (keys - seen) + seen * (seen + 1) / 2;
  }
  return queries * keys;
}

[[nodiscard]] cost attention(const reader& at, double products, double query_passes, double key_passes) {
  const double dim = at("head_dim");
  const double dim_v = at("head_dim_v") > 0 ? at("head_dim_v") : dim;
  const double heads = at("batch") * at("heads");
  const double heads_kv = at("batch") * at("heads_kv");
  return {at.element() * (query_passes * heads * at("seqlen_q", 1) * (dim + dim_v) / 2 +
                          key_passes * heads_kv * at("seqlen_k") * (dim + dim_v) / 2),
          products * heads * pairs(at) * (dim + dim_v)};
}

}  // namespace

cost cost_of(const sy::operator_description& op, sy::problem_view problem) {
  const reader at{op, problem};
  for (const row_cost& cost : row_costs) {
    if (cost.name != op.name) continue;
    const double elements = at("rows") * at("columns");
    const double passes = cost.passes + (at.is("with_residual") ? cost.residual_passes : 0);
    return {elements * passes * at.element(), elements * cost.operations};
  }
  if (op.name == "rotary") {
    const double elements = at("batch") * at("seqlen") * (at("heads") + at("heads_kv")) * at("head_dim");
    return {2 * elements * at.element(), 3 * elements};
  }
  // Two products of 2 x pairs x dim forward; the backward makes the scores again and four gradients.
  if (op.name == "attention_forward" || op.name == "attention_decode") return attention(at, 2, 2, 2);
  if (op.name == "attention_backward") return attention(at, 5, 4, 4);
  return {};
}

}  // namespace tool
