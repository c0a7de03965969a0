// SPDX-License-Identifier: MIT
// Decoding as a shared library with a C interface, so that attention_decode.py captures calls into CUDA
// graphs beside its peers', on the same tensors.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <switchyard/catalog.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_decode.hpp>

namespace sy = switchyard;

namespace {

using sy::operators::attention_decode;

struct engine {
  sy::catalog catalog;
  sy::device device{sy::cuda::open(0)};
  sy::dispatcher<attention_decode> decode{catalog, device};
};

engine& the_engine() {
  static engine one;
  return one;
}

template <class Function>
int guarded(Function f) {
  try {
    f();
    return 0;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "%s\n", wrong.what());
    return 1;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

/// The layout of attention_decode_call() in attention_decode.py.
struct attention_decode_call {
  void* q;
  void* k;
  void* v;
  void* out;
  float* k_scale;
  float* v_scale;
  std::int32_t* seqused_k;
  std::int32_t* block_table;
  std::int64_t batch, heads, heads_kv, seqlen_q, seqlen_k, head_dim, page_size, block_table_stride;
  std::int64_t q_stride[3], k_stride[3], v_stride[3], out_stride[3];  // batch, head, token
  std::int32_t dtype, kv_dtype;
  void* workspace;
  std::int64_t workspace_bytes;
};

static attention_decode::arguments arguments_of(const attention_decode_call& c) {
  attention_decode::arguments a;
  a.q = c.q, a.k = c.k, a.v = c.v, a.out = c.out;
  a.k_scale = c.k_scale, a.v_scale = c.v_scale;
  a.k_scale_stride = a.v_scale_stride = c.k_scale != nullptr ? 1 : 0;
  a.seqused_k = c.seqused_k, a.block_table = c.block_table;
  a.batch = c.batch, a.heads = c.heads, a.heads_kv = c.heads_kv;
  a.seqlen_q = c.seqlen_q, a.seqlen_k = c.seqlen_k;
  a.head_dim = a.head_dim_v = c.head_dim;
  a.page_size = c.page_size, a.block_table_stride = c.block_table_stride;
  a.q_stride_batch = c.q_stride[0], a.q_stride_head = c.q_stride[1], a.q_stride_token = c.q_stride[2];
  a.k_stride_batch = c.k_stride[0], a.k_stride_head = c.k_stride[1], a.k_stride_token = c.k_stride[2];
  a.v_stride_batch = c.v_stride[0], a.v_stride_head = c.v_stride[1], a.v_stride_token = c.v_stride[2];
  a.out_stride_batch = c.out_stride[0], a.out_stride_head = c.out_stride[1];
  a.out_stride_token = c.out_stride[2];
  a.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  a.dtype = static_cast<sy::dtype>(c.dtype);
  a.kv_dtype = static_cast<sy::dtype>(c.kv_dtype);
  return a;
}

/// Loads what a call needs, and says which variant that is, why, and how much workspace it takes.
int attention_decode_prepare(const attention_decode_call* call, char* name, std::int64_t name_bytes,
                             std::int64_t* workspace_bytes) {
  return guarded([&] {
    const auto a = arguments_of(*call);
    the_engine().decode.prepare(a);
    const auto why = the_engine().decode.explain(a);
    std::snprintf(name, static_cast<std::size_t>(name_bytes), "%s (%s)", why.variant.c_str(),
                  std::string{sy::to_string(why.chosen.why)}.c_str());
    *workspace_bytes = static_cast<std::int64_t>(the_engine().decode.workspace_bytes(a));
  });
}

int attention_decode_run(const attention_decode_call* call, void* stream) {
  return guarded([&] {
    the_engine().decode(sy::stream{stream}, arguments_of(*call),
                        {call->workspace, static_cast<std::size_t>(call->workspace_bytes)});
  });
}

}  // extern "C"
#pragma GCC visibility pop
