// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <switchyard/operators/rotary.hpp>

#include "../kernels/rope_table.hpp"
#include "../operations.hpp"
#include "../tensors.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::rotary;

namespace {

/// Cosines and sines of the tokens' angles, one row for each token. Nodes whose positions are an input of the
/// graph share them.
[[nodiscard]] bool make_table(calls& with, const ggml_tensor* node, float*& cos, float*& sin) {
  const ggml_tensor* const positions = node->src[1];
  const ggml_tensor* const factors = node->src[2];
  std::array<std::int32_t, 16> parameters{};
  std::copy_n(&node->op_params[0], parameters.size(), parameters.begin());
  const bool is_shared = positions->op == GGML_OP_NONE && !with.is_asking();
  if (is_shared) {
    for (const rope_tables::table& table : with.tables().known) {
      if (table.positions != positions || table.factors != factors || table.parameters != parameters)
        continue;
      cos = table.cos;
      sin = table.sin;
      return true;
    }
  }
  rope_table::arguments call;
  call.positions = static_cast<const std::int32_t*>(with.address(positions));
  call.factors = factors != nullptr ? static_cast<const float*>(with.address(factors)) : nullptr;
  call.tokens = positions->ne[0];
  call.pairs = parameters[1] / 2;
  const auto bytes = call.tokens * call.pairs * std::int64_t{sizeof(float)};
  call.cos = cos = static_cast<float*>(is_shared ? with.kept(bytes) : with.scratch(bytes));
  call.sin = sin = static_cast<float*>(is_shared ? with.kept(bytes) : with.scratch(bytes));
  call.base = parameter<float>(node, 5);
  call.scale = parameter<float>(node, 6);
  call.extrapolation = parameter<float>(node, 7);
  call.magnitude = parameter<float>(node, 8);
  if (call.extrapolation != 0) {
    call.magnitude *= 1.0F + 0.1F * std::log(1.0F / call.scale);
    std::array<float, 2> ends{};
    ggml_rope_yarn_corr_dims(parameters[1], parameters[4], call.base, parameter<float>(node, 9),
                             parameter<float>(node, 10), ends.data());
    call.low = ends[0];
    call.high = ends[1];
  }
  if (is_shared) with.tables().known.push_back({positions, factors, parameters, cos, sin});
  return with.make<rope_table>(call);
}

}  // namespace

bool make_rope(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  const auto pairs = parameter<std::int32_t>(node, 1) / 2;
  const auto mode = parameter<std::int32_t>(node, 2);
  const auto offset = parameter<std::int32_t>(node, 15);
  if ((mode != GGML_ROPE_TYPE_NORMAL && mode != GGML_ROPE_TYPE_NEOX) || offset != 0) return false;
  const auto in_strides = element_strides(x);
  const auto out_strides = element_strides(node);
  if (!in_strides || !out_strides || x->type != node->type) return false;
  float* cos = nullptr;
  float* sin = nullptr;
  if (!make_table(with, node, cos, sin)) return false;
  const auto view = [&](const ggml_tensor* of, const std::array<std::int64_t, 4>& strides) {
    return sy::tensor{with.address(of),
                      *dtype_of(of),
                      {of->ne[3], of->ne[2], of->ne[1], of->ne[0]},
                      {strides[3], strides[2], strides[1], 1}};
  };
  rotary::options options;
  options.cos = sy::const_tensor{cos, sy::dtype::f32, {node->ne[2], pairs}};
  options.sin = sy::const_tensor{sin, sy::dtype::f32, {node->ne[2], pairs}};
  options.style = mode == GGML_ROPE_TYPE_NEOX ? sy::operators::rotary_style::half
                                              : sy::operators::rotary_style::interleaved;
  options.inverse = node->op == GGML_OP_ROPE_BACK;
  return with.make<rotary>(rotary::call(view(x, *in_strides), {}, view(node, *out_strides), {}, options));
}

}  // namespace switchyard_ggml
