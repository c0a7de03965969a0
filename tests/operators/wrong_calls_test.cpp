// SPDX-License-Identifier: MIT
// Every operator's CPU kernels under calls that are changed at random: a named error or a result, and no byte
// touched beside the call's own.
//
// With SWITCHYARD_TEST_HIP_LIBRARY, a stand-in of the HIP run time, the same calls go to it.
//
// SWITCHYARD_TEST_SEED repeats a run, SWITCHYARD_TEST_CALLS sets the calls of each operator.

#include "wrong_calls.hpp"

#include <switchyard/devices/hip/open.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "sanitized.hpp"

namespace sy = switchyard;
using namespace switchyard::operators;
using switchyard::dtype;
using switchyard::test::index_numbers;
using switchyard::test::spanned;
using random_bits = std::mt19937_64;
using dimensions = std::vector<std::pair<std::int64_t, std::int64_t>>;

namespace {

std::int64_t up_to(random_bits& random, std::int64_t most) {
  return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
}
bool coin(random_bits& random) {
  return random() % 2 == 0;
}
dtype any_float(random_bits& random) {
  constexpr std::array all{dtype::f32, dtype::f16, dtype::bf16};
  return all[random() % all.size()];
}
/// Never followed: it says how a tensor is aligned.
void* somewhere() {
  static std::byte place;
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&place) & ~std::uintptr_t{63});
}
template <class Pointer>
void place(Pointer& at) {
  at = static_cast<Pointer>(somewhere());
}
std::int64_t bytes_of(dtype type) {
  return std::max<std::int64_t>(sy::detail::size_of_legal(type), 1);
}
template <class Pointer>
spanned read(const Pointer& at, std::int64_t bytes, dimensions dims) {
  return {reinterpret_cast<const void* const*>(&at), bytes, std::move(dims), false};
}
template <class Pointer>
spanned written(const Pointer& at, std::int64_t bytes, dimensions dims) {
  return {reinterpret_cast<const void* const*>(&at), bytes, std::move(dims), true};
}
/// The largest of the first `count` numbers of a tensor, which holds them as Index; -1 where it has none.
template <class Index>
std::int64_t largest_of(const index_numbers& numbers, std::string_view name, std::int64_t count) {
  const auto found = numbers.find(name);
  const std::int64_t given = found == numbers.end() ? 0 : std::ssize(found->second);
  std::int64_t largest = given < count ? 0 : -1;  // zeros lie behind the last
  for (std::int64_t i = 0; i < std::min(given, count); ++i)
    largest = std::max<std::int64_t>(largest, static_cast<Index>(found->second[static_cast<std::size_t>(i)]));
  return largest;
}

std::uint32_t seed_of_run() {
  static const std::uint32_t seed = sy::test::fresh_seed();
  return seed;
}

/// x + 1 and 2 x, or the largest number.
std::int64_t after(std::int64_t x) {
  return x < INT64_MAX ? x + 1 : x;
}
std::int64_t twice(std::int64_t x) {
  std::int64_t out = 0;
  return __builtin_mul_overflow(2, x, &out) ? INT64_MAX : out;
}

/// How many operators had kernels.
int swept_operators = 0;

/// The host, or a stand-in of HIP's library that runs nothing.
const sy::device& device_of_run() {
  static const sy::device device = [] {
    const char* const library = sy::test::variable("SWITCHYARD_TEST_HIP_LIBRARY");
    if (library == nullptr) return sy::device::host();
    return sy::device{sy::hip::open(0, {.library = library})};
  }();
  return device;
}

template <class Operator, class Legal, class Tensors>
void sweep(const Legal& legal, const Tensors& tensors) {
  static sy::catalog catalog;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM})
    (void)std::signal(number, &sy::test::report_crash);
  random_bits random{seed_of_run()};
  const std::uint32_t calls = sy::test::number("SWITCHYARD_TEST_CALLS", test::at_scale(3000U));
  sy::test::wrong_calls<Operator> wrong{catalog, device_of_run()};
  const sy::test::sweep_counts counts = wrong.run(calls, random, legal, tensors);
  std::printf("%s: %zu accepted, %zu refused, %zu not run\n", std::string{Operator::name}.c_str(),
              counts.accepted, counts.refused, counts.not_run);
  if (counts.accepted == 0) return;  // the device has no kernel of it
  ++swept_operators;
  // The stand-in's kernels take fewer element types.
  const std::uint32_t least = device_of_run().properties().backend == "host" ? calls / 20 : calls / 500;
  CHECK(counts.accepted > least);
  CHECK(counts.refused > least);
}

/// Rows of 5 to 40 columns, with gaps; every pointer is given.
template <class Operator>
auto legal_rows(random_bits& random) {
  typename sy::test::wrong_calls<Operator>::call out;
  for (const sy::field_description& field : sy::describe<Operator>().fields) {
    std::byte* const at = reinterpret_cast<std::byte*>(&out.a) + field.offset;
    if (field.kind == sy::value_kind::pointer) {
      void* const address = somewhere();
      std::memcpy(at, &address, sizeof address);
    } else if (field.name.find("stride") != std::string_view::npos) {
      const std::int64_t stride = 80 + 16 * up_to(random, 2);
      std::memcpy(at, &stride, sizeof stride);
    }
  }
  out.a.rows = up_to(random, 4);
  out.a.columns = 4 + up_to(random, 36);
  out.a.dtype = any_float(random);
  if constexpr (requires { out.a.gamma_dtype; })
    out.a.gamma_dtype = coin(random) ? out.a.dtype : sy::dtype::f32;
  return out;
}

}  // namespace

TEST_CASE("wrong calls of row operators are refused or harmless", "[wrong_calls]") {
  using numbers = index_numbers;
  const auto rows = [](const auto& a, std::int64_t stride, std::int64_t columns) {
    return dimensions{{a.rows, stride}, {columns, 1}};
  };
  sweep<softmax>(&legal_rows<softmax>,
                 [&](const softmax::arguments& a, const numbers&) -> std::vector<spanned> {
                   const std::int64_t size = bytes_of(a.dtype);
                   return {read(a.x, size, rows(a, a.x_stride_row, a.columns)),
                           written(a.out, size, rows(a, a.out_stride_row, a.columns))};
                 });
  sweep<softmax_backward>(&legal_rows<softmax_backward>,
                          [&](const softmax_backward::arguments& a, const numbers&) -> std::vector<spanned> {
                            const std::int64_t size = bytes_of(a.dtype);
                            return {read(a.grad_out, size, rows(a, a.grad_out_stride_row, a.columns)),
                                    read(a.out, size, rows(a, a.out_stride_row, a.columns)),
                                    written(a.grad_x, size, rows(a, a.grad_x_stride_row, a.columns))};
                          });
  sweep<gated_activation>(
      [](random_bits& random) {
        auto out = legal_rows<gated_activation>(random);
        if (coin(random)) out.a.up = nullptr;
        return out;
      },
      [&](const gated_activation::arguments& a, const numbers&) -> std::vector<spanned> {
        const std::int64_t size = bytes_of(a.dtype);
        const std::int64_t both = a.packed() ? twice(a.columns) : a.columns;
        return {read(a.gate, size, rows(a, a.gate_stride_row, both)),
                read(a.up, size, rows(a, a.up_stride_row, a.columns)),
                written(a.out, size, rows(a, a.out_stride_row, a.columns))};
      });
  sweep<gated_activation_backward>(
      [](random_bits& random) {
        auto out = legal_rows<gated_activation_backward>(random);
        if (coin(random)) out.a.up = nullptr, out.a.grad_up = nullptr;
        return out;
      },
      [&](const gated_activation_backward::arguments& a, const numbers&) -> std::vector<spanned> {
        const std::int64_t size = bytes_of(a.dtype);
        const std::int64_t both = a.packed() ? twice(a.columns) : a.columns;
        return {read(a.grad_out, size, rows(a, a.grad_out_stride_row, a.columns)),
                read(a.gate, size, rows(a, a.gate_stride_row, both)),
                read(a.up, size, rows(a, a.up_stride_row, a.columns)),
                written(a.grad_gate, size, rows(a, a.grad_gate_stride_row, both)),
                written(a.grad_up, size, rows(a, a.grad_up_stride_row, a.columns))};
      });
}

TEST_CASE("wrong calls of norms are refused or harmless", "[wrong_calls]") {
  const auto norm = [](const auto& a, const index_numbers&) -> std::vector<spanned> {
    const std::int64_t size = bytes_of(a.dtype);
    const std::int64_t weight = bytes_of(a.gamma_dtype);
    const auto rows = [&a](std::int64_t stride) { return dimensions{{a.rows, stride}, {a.columns, 1}}; };
    std::vector<spanned> out{read(a.x, size, rows(a.x_stride_row)),
                             read(a.residual, size, rows(a.residual_stride_row)),
                             read(a.gamma, weight, {{a.columns, 1}}),
                             written(a.out, size, rows(a.out_stride_row)),
                             written(a.residual_out, size, rows(a.residual_out_stride_row)),
                             written(a.rstd, 4, {{a.rows, 1}})};
    if constexpr (requires { a.mean; }) {
      out.push_back(read(a.beta, weight, {{a.columns, 1}}));
      out.push_back(written(a.mean, 4, {{a.rows, 1}}));
    }
    return out;
  };
  const auto backward = [](const auto& a, const index_numbers&) -> std::vector<spanned> {
    const std::int64_t size = bytes_of(a.dtype);
    const std::int64_t weight = bytes_of(a.gamma_dtype);
    const auto rows = [&a](std::int64_t stride) { return dimensions{{a.rows, stride}, {a.columns, 1}}; };
    std::vector<spanned> out{read(a.grad_out, size, rows(a.grad_out_stride_row)),
                             read(a.h, size, rows(a.h_stride_row)),
                             read(a.gamma, weight, {{a.columns, 1}}),
                             read(a.rstd, 4, {{a.rows, 1}}),
                             read(a.grad_residual, size, rows(a.grad_residual_stride_row)),
                             written(a.grad_x, size, rows(a.grad_x_stride_row)),
                             written(a.grad_gamma, weight, {{a.columns, 1}})};
    if constexpr (requires { a.mean; }) {
      out.push_back(read(a.mean, 4, {{a.rows, 1}}));
      out.push_back(written(a.grad_beta, weight, {{a.columns, 1}}));
    }
    return out;
  };
  sweep<rms_norm>(&legal_rows<rms_norm>, norm);
  sweep<layer_norm>(&legal_rows<layer_norm>, norm);
  sweep<rms_norm_backward>(&legal_rows<rms_norm_backward>, backward);
  sweep<layer_norm_backward>(&legal_rows<layer_norm_backward>, backward);
}

TEST_CASE("wrong calls of products and tables are refused or harmless", "[wrong_calls]") {
  const auto any_format = [](random_bits& random) {
    constexpr std::array all{weight_format::f32,   weight_format::bf16, weight_format::q8_0,
                             weight_format::q4_k,  weight_format::q5_k, weight_format::iq4_nl,
                             weight_format::mxfp4, weight_format::q5_0, weight_format::q5_1};
    return all[random() % all.size()];
  };
  const auto row_bytes_of = [](weight_format format, std::int64_t columns) {
    return is_weight_format(format) && columns > 0 ? row_bytes(format, columns) : 0;
  };
  sweep<matmul_quantized>(
      [&](random_bits& random) {
        sy::test::wrong_calls<matmul_quantized>::call out;
        auto& a = out.a;
        place(a.x), place(a.w), place(a.out), place(a.bias);
        a.rows = up_to(random, 5);
        a.in_features = 256;
        a.out_features = up_to(random, 40);
        a.weights = any_format(random);
        a.x_stride_row = 272;
        a.out_stride_row = 48;
        a.w_row_bytes = row_bytes(a.weights, 256) + 16;
        a.dtype = any_float(random);
        a.out_dtype = any_float(random);
        a.int8_activations = coin(random);
        return out;
      },
      [&](const matmul_quantized::arguments& a, const index_numbers&) -> std::vector<spanned> {
        return {read(a.x, bytes_of(a.dtype), {{a.rows, a.x_stride_row}, {a.in_features, 1}}),
                read(a.w, 1, {{a.out_features, a.w_row_bytes}, {row_bytes_of(a.weights, a.in_features), 1}}),
                read(a.bias, 4, {{a.out_features, 1}}),
                written(a.out, bytes_of(a.out_dtype), {{a.rows, a.out_stride_row}, {a.out_features, 1}})};
      });
  sweep<embedding>(
      [&](random_bits& random) {
        sy::test::wrong_calls<embedding>::call out;
        auto& a = out.a;
        place(a.table), place(a.ids), place(a.out);
        a.rows = up_to(random, 5);
        a.columns = 256;
        a.table_rows = 7;
        a.weights = any_format(random);
        a.out_stride_row = 272;
        a.table_row_bytes = row_bytes(a.weights, 256) + 16;
        a.dtype = any_float(random);
        out.numbers["ids"] = {0, 6, 3, 3, 1};
        return out;
      },
      [&](const embedding::arguments& a, const index_numbers&) -> std::vector<spanned> {
        return {
            read(a.table, 1, {{a.table_rows, a.table_row_bytes}, {row_bytes_of(a.weights, a.columns), 1}}),
            read(a.ids, 4, {{a.rows, 1}}),
            written(a.out, bytes_of(a.dtype), {{a.rows, a.out_stride_row}, {a.columns, 1}})};
      });
}

TEST_CASE("wrong calls of rotary are refused or harmless", "[wrong_calls]") {
  sweep<rotary>(
      [](random_bits& random) {
        sy::test::wrong_calls<rotary>::call out;
        auto& a = out.a;
        place(a.q), place(a.k), place(a.q_out), place(a.k_out);
        a.batch = 2;
        a.seqlen = up_to(random, 6);
        a.heads = up_to(random, 4);
        a.heads_kv = up_to(random, 2);
        a.head_dim = 24;
        a.rotary_dim = 2 * up_to(random, 12);
        a.dtype = any_float(random);
        a.style = coin(random) ? rotary_style::half : rotary_style::interleaved;
        a.q_stride_head = a.k_stride_head = a.q_out_stride_head = a.k_out_stride_head = 32;
        a.q_stride_token = a.k_stride_token = a.q_out_stride_token = a.k_out_stride_token =
            std::int64_t{32} * 4;
        a.q_stride_batch = a.k_stride_batch = a.q_out_stride_batch = a.k_out_stride_batch =
            std::int64_t{32} * 4 * 6;
        if (coin(random)) {
          place(a.cos), place(a.sin);
          a.table_dtype = any_float(random);
          a.table_stride = 16;
          a.table_rows = 16;
        }
        const bool is_packed = coin(random);
        if (is_packed) {
          place(a.cu_seqlens);
          a.tokens = a.seqlen + a.seqlen / 2;
          out.numbers["cu_seqlens"] = {0, a.seqlen, a.tokens};
        }
        const auto from = random() % 3;
        if (from == 1) {
          place(a.positions);
          for (std::int64_t i = 0; i < 12; ++i) out.numbers["positions"].push_back(i % 16);
        } else if (from == 2) {
          place(a.sequence_offsets);
          out.numbers["sequence_offsets"] = {0, 10};
        } else {
          a.offset = up_to(random, 10);
        }
        return out;
      },
      [](const rotary::arguments& a, const index_numbers& numbers) {
        const bool is_packed = a.cu_seqlens != nullptr;
        const std::int64_t size = bytes_of(a.dtype);
        const std::int64_t tokens = !is_packed ? a.seqlen
                                    : a.tokens >= 0
                                        ? a.tokens
                                        : largest_of<std::int32_t>(numbers, "cu_seqlens", after(a.batch));
        const auto rows = [&](std::int64_t heads, std::int64_t batch, std::int64_t token, std::int64_t head) {
          return dimensions{
              {is_packed ? 1 : a.batch, batch}, {tokens, token}, {heads, head}, {a.head_dim, 1}};
        };
        std::vector<spanned> out{
            read(a.q, size, rows(a.heads, a.q_stride_batch, a.q_stride_token, a.q_stride_head)),
            read(a.k, size, rows(a.heads_kv, a.k_stride_batch, a.k_stride_token, a.k_stride_head)),
            written(a.q_out, size,
                    rows(a.heads, a.q_out_stride_batch, a.q_out_stride_token, a.q_out_stride_head)),
            written(a.k_out, size,
                    rows(a.heads_kv, a.k_out_stride_batch, a.k_out_stride_token, a.k_out_stride_head))};
        std::int64_t positions = a.table_rows;
        if (positions < 0) {
          // What the call says without them.
          if (a.positions != nullptr) {
            std::int64_t count = tokens;
            if (!is_packed && __builtin_mul_overflow(a.batch, tokens, &count)) count = INT64_MAX;
            positions = after(largest_of<std::int64_t>(numbers, "positions", count));
          } else {
            const std::int64_t first = a.sequence_offsets != nullptr
                                           ? largest_of<std::int32_t>(numbers, "sequence_offsets", a.batch)
                                           : a.offset;
            if (__builtin_add_overflow(first, a.seqlen, &positions)) positions = INT64_MAX;
          }
        }
        const dimensions table{{positions, a.table_stride}, {a.rotary_dim / 2, 1}};
        if (a.cos != nullptr && positions > 0) {
          out.push_back(read(a.cos, bytes_of(a.table_dtype), table));
          out.push_back(read(a.sin, bytes_of(a.table_dtype), table));
        }
        out.push_back(read(a.positions, 8, {{is_packed ? 1 : a.batch, a.seqlen}, {tokens, 1}}));
        out.push_back(read(a.cu_seqlens, 4, {{after(a.batch), 1}}));
        out.push_back(read(a.sequence_offsets, 4, {{a.batch, 1}}));
        return out;
      });
  sweep<rotary_cache>(
      [](random_bits& random) {
        sy::test::wrong_calls<rotary_cache>::call out;
        auto& a = out.a;
        place(a.q), place(a.k), place(a.v), place(a.k_cache), place(a.v_cache), place(a.cos), place(a.sin);
        place(a.positions), place(a.slots);
        if (coin(random)) place(a.q_gamma), place(a.k_gamma);
        if (coin(random)) place(a.k_scale), place(a.v_scale);
        a.tokens = up_to(random, 5);
        a.heads = up_to(random, 4);
        a.heads_kv = up_to(random, 2);
        a.head_dim = 24;
        a.rotary_dim = 2 * up_to(random, 12);
        a.page_size = 4;
        a.pages = 3;
        a.table_rows = 9;
        a.table_stride = 16;
        a.q_stride_head = a.k_stride_head = a.v_stride_head = 32;
        a.q_stride_token = a.k_stride_token = a.v_stride_token = 128;
        a.k_cache_stride_head = a.v_cache_stride_head = 32;
        a.k_cache_stride_token = a.v_cache_stride_token = 64;
        a.k_cache_stride_page = a.v_cache_stride_page = 256;
        a.k_scale_stride = a.v_scale_stride = coin(random) ? 1 : 0;
        a.dtype = any_float(random);
        a.kv_dtype = coin(random) ? dtype::bf16 : dtype::f8_e4m3;
        out.numbers["positions"] = {0, 8, 3, 1, 2};
        out.numbers["slots"] = {0, 11, -1, 5, 4};
        return out;
      },
      [](const rotary_cache::arguments& a, const index_numbers& numbers) -> std::vector<spanned> {
        const std::int64_t size = bytes_of(a.dtype);
        const std::int64_t cached = bytes_of(a.kv_dtype);
        const std::int64_t pages = a.pages >= 0 ? a.pages
                                                : after(largest_of<std::int64_t>(numbers, "slots", a.tokens) /
                                                        std::max<std::int64_t>(a.page_size, 1));
        const std::int64_t positions = a.table_rows >= 0
                                           ? a.table_rows
                                           : after(largest_of<std::int64_t>(numbers, "positions", a.tokens));
        const auto cache = [&](std::int64_t page, std::int64_t token, std::int64_t head) {
          return dimensions{{pages, page}, {a.page_size, token}, {a.heads_kv, head}, {a.head_dim, 1}};
        };
        const dimensions table{{positions, a.table_stride}, {a.rotary_dim / 2, 1}};
        return {
            written(a.q, size, {{a.tokens, a.q_stride_token}, {a.heads, a.q_stride_head}, {a.head_dim, 1}}),
            read(a.k, size, {{a.tokens, a.k_stride_token}, {a.heads_kv, a.k_stride_head}, {a.head_dim, 1}}),
            read(a.v, size, {{a.tokens, a.v_stride_token}, {a.heads_kv, a.v_stride_head}, {a.head_dim, 1}}),
            written(a.k_cache, cached,
                    cache(a.k_cache_stride_page, a.k_cache_stride_token, a.k_cache_stride_head)),
            written(a.v_cache, cached,
                    cache(a.v_cache_stride_page, a.v_cache_stride_token, a.v_cache_stride_head)),
            read(a.cos, 4, table),
            read(a.sin, 4, table),
            read(a.positions, 8, {{a.tokens, 1}}),
            read(a.slots, 8, {{a.tokens, 1}}),
            read(a.q_gamma, 4, {{a.head_dim, 1}}),
            read(a.k_gamma, 4, {{a.head_dim, 1}}),
            read(a.k_scale, 4, {{a.heads_kv, a.k_scale_stride}}),
            read(a.v_scale, 4, {{a.heads_kv, a.v_scale_stride}})};
      });
}

namespace {

/// What the attention operators have in common: packed, paged or dense, with any of the options.
template <class Operator>
auto legal_attention(random_bits& random) {
  typename sy::test::wrong_calls<Operator>::call out;
  auto& a = out.a;
  place(a.q), place(a.k), place(a.v), place(a.out), place(a.lse);
  a.batch = 2;
  a.heads_kv = up_to(random, 2);
  a.heads = a.heads_kv * up_to(random, 2);
  a.seqlen_q = up_to(random, 5);
  a.seqlen_k = 16 * up_to(random, 3);
  a.head_dim = 8 * up_to(random, 4);
  a.head_dim_v = coin(random) ? a.head_dim : 16;
  a.dtype = any_float(random);
  for (const sy::field_description& field : sy::describe<Operator>().fields) {
    if (field.kind != sy::value_kind::i64 || field.name.find("_stride_") == std::string_view::npos) continue;
    const std::int64_t stride = field.name.ends_with("head")    ? 64
                                : field.name.ends_with("token") ? 256
                                                                : 256 * 48;
    std::memcpy(reinterpret_cast<std::byte*>(&a) + field.offset, &stride, sizeof stride);
  }
  a.scale = 0.3F;
  if (coin(random)) a.soft_cap = 20;
  if (coin(random)) a.window_left = static_cast<std::int32_t>(random() % 9);
  if (coin(random)) place(a.alibi_slopes);
  if constexpr (requires { a.k_scale_stride; }) a.k_scale_stride = a.v_scale_stride = 0;
  if constexpr (requires { a.bias; }) {
    constexpr std::array masks{attention_mask::none, attention_mask::causal_top_left,
                               attention_mask::causal_bottom_right};
    a.mask = masks[random() % masks.size()];
    if (coin(random)) a.window_right = static_cast<std::int32_t>(random() % 9);
    if (coin(random)) place(a.bias);
    if (coin(random)) {
      a.dropout_p = 0.25F;
      if (coin(random)) place(a.dropout_state);
    }
    if (coin(random)) {
      place(a.cu_seqlens_q);
      a.tokens_q = a.seqlen_q + 1;
      out.numbers["cu_seqlens_q"] = {0, 1, a.tokens_q};
    } else if (coin(random)) {
      place(a.seqused_q);
      out.numbers["seqused_q"] = {0, a.seqlen_q};
    }
  }
  return out;
}

void make_paged(auto& out, random_bits& random) {
  auto& a = out.a;
  place(a.block_table), place(a.seqused_k);
  a.page_size = 16;
  a.pages = 5;
  a.block_table_stride = 4;
  a.block_table_entries = a.seqlen_k / 16;
  out.numbers["block_table"] = {4, 0, 3, -1, 2, 1, 3, 99};
  out.numbers["seqused_k"] = {a.seqlen_k, static_cast<std::int64_t>(random() % 17)};
}

/// A block mask in place of all options that it excludes.
void make_masked(auto& out) {
  auto& a = out.a;
  a.mask = attention_mask::none;
  a.window_left = a.window_right = -1;
  a.soft_cap = a.dropout_p = 0;
  a.bias = nullptr, a.alibi_slopes = nullptr, a.dropout_state = nullptr;
  a.cu_seqlens_q = a.cu_seqlens_k = a.seqused_q = a.seqused_k = nullptr;
  a.tokens_q = a.tokens_k = 0;
  out.numbers.clear();
  place(a.kv_num_blocks), place(a.kv_indices), place(a.kv_bits), place(a.mask_bits);
  place(a.full_kv_num_blocks), place(a.full_kv_indices);
  a.mask_batch = static_cast<std::int32_t>(a.batch);
  a.mask_heads = a.mask_query_blocks = a.mask_key_blocks = 1;
  a.mask_tiles = 2;
  a.mask_block_q = 128;
  a.mask_words = 4;
  out.numbers["kv_num_blocks"] = {1, 0};
  out.numbers["full_kv_num_blocks"] = {0, 1};
  out.numbers["kv_bits"] = {1, 99};
  if constexpr (requires { a.q_num_blocks; }) {
    place(a.q_num_blocks), place(a.q_indices), place(a.q_bits);
    place(a.full_q_num_blocks), place(a.full_q_indices);
    out.numbers["q_num_blocks"] = {1, 0};
    out.numbers["full_q_num_blocks"] = {0, 1};
    out.numbers["q_bits"] = {0, 99};
  }
}

/// A latent cache with rotary columns apart.
void make_rotary_apart(attention_decode::arguments& a, random_bits& random) {
  a.heads_kv = 1;
  a.scale_groups = up_to(random, 2);
  a.head_dim_v = 128 * (a.scale_groups - 1) + 16;
  a.rotary_dim = 8;
  a.head_dim = a.head_dim_v + a.rotary_dim;
  a.v = a.k;
  a.v_scale = nullptr;
  place(a.k_scale), place(a.k_rotary);
  a.k_scale_stride_token = 3, a.k_scale_stride_batch = 64;
  a.k_rotary_stride_token = 16, a.k_rotary_stride_batch = 512;
  a.v_stride_batch = a.k_stride_batch, a.v_stride_token = a.k_stride_token;
  a.v_stride_head = a.k_stride_head;
}

/// The lists and bits of a block mask.
void add_mask_tensors(const auto& a, std::vector<spanned>& out) {
  const auto times = [](std::int64_t x, std::int64_t y) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(x, y, &product) ? INT64_MAX : product;
  };
  // By reference: what is read stands for the field, not for its value.
  const auto add = [&](const std::int32_t* const& counts, const std::int32_t* const& list,
                       const std::int32_t* const& bits, std::int64_t rows, std::int64_t columns) {
    const auto lists = [&](std::int64_t entries) {
      return dimensions{{a.mask_batch, times(a.mask_heads, times(rows, entries))},
                        {a.mask_heads, times(rows, entries)},
                        {rows, entries},
                        {entries, 1}};
    };
    out.push_back(read(counts, 4, lists(1)));
    out.push_back(read(list, 4, lists(columns)));
    if (bits != nullptr) out.push_back(read(bits, 4, lists(columns)));
  };
  add(a.kv_num_blocks, a.kv_indices, a.kv_bits, a.mask_query_blocks, a.mask_key_blocks);
  add(a.full_kv_num_blocks, a.full_kv_indices, nullptr, a.mask_query_blocks, a.mask_key_blocks);
  if constexpr (requires { a.q_num_blocks; }) {
    add(a.q_num_blocks, a.q_indices, a.q_bits, a.mask_key_blocks, a.mask_query_blocks);
    add(a.full_q_num_blocks, a.full_q_indices, nullptr, a.mask_key_blocks, a.mask_query_blocks);
  }
  out.push_back(read(a.mask_bits, 4,
                     {{a.mask_tiles, times(a.mask_block_q, a.mask_words)},
                      {a.mask_block_q, a.mask_words},
                      {a.mask_words, 1}}));
}

/// q, k, v, out, lse and what the options add.
std::vector<spanned> attention_tensors(const auto& a, const index_numbers& numbers) {
  const std::int64_t size = bytes_of(a.dtype);
  std::int64_t cached = size;
  if constexpr (requires { a.kv_dtype; }) cached = a.kv_dtype == dtype::f8_e4m3 ? 1 : size;
  std::int64_t asked = size;  // bytes of an element of q
  if constexpr (requires { a.q_dtype; }) {
    if (a.q_dtype == dtype::f8_e4m3) asked = 1;
  }
  bool packed_q = false;
  bool packed_k = false;
  std::int64_t queries = a.seqlen_q;
  std::int64_t keys = a.seqlen_k;
  std::int64_t entries = a.batch;
  std::vector<spanned> out;
  if constexpr (requires { a.cu_seqlens_q; }) {
    packed_q = a.cu_seqlens_q != nullptr;
    packed_k = a.cu_seqlens_k != nullptr;
    if (packed_q)
      queries =
          a.tokens_q > 0 ? a.tokens_q : largest_of<std::int32_t>(numbers, "cu_seqlens_q", after(a.batch));
    if (packed_k)
      keys = a.tokens_k > 0 ? a.tokens_k : largest_of<std::int32_t>(numbers, "cu_seqlens_k", after(a.batch));
    out.push_back(read(a.cu_seqlens_q, 4, {{after(a.batch), 1}}));
    out.push_back(read(a.cu_seqlens_k, 4, {{after(a.batch), 1}}));
    out.push_back(read(a.seqused_q, 4, {{a.batch, 1}}));
    if (a.dropout_p > 0) out.push_back(read(a.dropout_state, 8, {{2, 1}}));
    out.push_back(read(a.bias, size,
                       {{a.batch, a.bias_stride_batch},
                        {a.heads, a.bias_stride_head},
                        {a.seqlen_q, a.bias_stride_row},
                        {a.seqlen_k, 1}}));
    add_mask_tensors(a, out);
  }
  if constexpr (requires { a.block_table; }) {
    if (a.block_table != nullptr) {
      entries = a.pages >= 0 ? a.pages : after(largest_of<std::int32_t>(numbers, "block_table", INT64_MAX));
      keys = a.page_size;
      const std::int64_t row_entries = a.block_table_entries >= 0
                                           ? a.block_table_entries
                                           : after(a.seqlen_k / std::max<std::int64_t>(a.page_size, 1));
      out.push_back(read(a.block_table, 4, {{a.batch, a.block_table_stride}, {row_entries, 1}}));
    }
    out.push_back(read(a.k_scale, 4, {{a.heads_kv, a.k_scale_stride}}));
    out.push_back(read(a.v_scale, 4, {{a.heads_kv, a.v_scale_stride}}));
    if constexpr (requires { a.q_scale; }) out.push_back(read(a.q_scale, 4, {{a.heads, a.q_scale_stride}}));
    out.push_back(read(a.sinks, 4, {{a.heads, 1}}));
  }
  out.push_back(read(a.seqused_k, 4, {{a.batch, 1}}));
  out.push_back(read(a.alibi_slopes, 4, {{a.heads, 1}}));
  const auto like_q = [&](std::int64_t dim, std::int64_t batch, std::int64_t token, std::int64_t head) {
    return dimensions{{packed_q ? 1 : a.batch, batch}, {queries, token}, {a.heads, head}, {dim, 1}};
  };
  const auto like_k = [&](std::int64_t dim, std::int64_t batch, std::int64_t token, std::int64_t head) {
    return dimensions{{packed_k ? 1 : entries, batch}, {keys, token}, {a.heads_kv, head}, {dim, 1}};
  };
  const dimensions lse{
      {packed_q ? 1 : a.batch, a.lse_stride_batch}, {a.heads, a.lse_stride_head}, {queries, 1}};
  out.push_back(read(a.q, asked, like_q(a.head_dim, a.q_stride_batch, a.q_stride_token, a.q_stride_head)));
  std::int64_t columns = a.head_dim;
  if constexpr (requires { a.k_rotary; }) {
    if (a.k_rotary != nullptr) {
      columns = a.head_dim_v;
      out.push_back(
          read(a.k_rotary, size,
               {{entries, a.k_rotary_stride_batch}, {keys, a.k_rotary_stride_token}, {a.rotary_dim, 1}}));
      out.push_back(
          read(a.k_scale, 4,
               {{entries, a.k_scale_stride_batch}, {keys, a.k_scale_stride_token}, {a.scale_groups, 1}}));
    }
  }
  out.push_back(read(a.k, cached, like_k(columns, a.k_stride_batch, a.k_stride_token, a.k_stride_head)));
  if (columns != a.head_dim && a.v == a.k) {
    out.back().same = &a.v;
  } else {
    out.push_back(
        read(a.v, cached, like_k(a.head_dim_v, a.v_stride_batch, a.v_stride_token, a.v_stride_head)));
  }
  const dimensions results = like_q(a.head_dim_v, a.out_stride_batch, a.out_stride_token, a.out_stride_head);
  if constexpr (requires { a.dout; }) {
    out.push_back(read(a.out, size, results));
    out.push_back(read(a.lse, 4, lse));
    out.push_back(
        read(a.dlse, 4,
             {{packed_q ? 1 : a.batch, a.dlse_stride_batch}, {a.heads, a.dlse_stride_head}, {queries, 1}}));
    out.push_back(read(a.dout, size,
                       like_q(a.head_dim_v, a.dout_stride_batch, a.dout_stride_token, a.dout_stride_head)));
    out.push_back(
        written(a.dq, size, like_q(a.head_dim, a.dq_stride_batch, a.dq_stride_token, a.dq_stride_head)));
    out.push_back(
        written(a.dk, size, like_k(a.head_dim, a.dk_stride_batch, a.dk_stride_token, a.dk_stride_head)));
    out.push_back(
        written(a.dv, size, like_k(a.head_dim_v, a.dv_stride_batch, a.dv_stride_token, a.dv_stride_head)));
    out.push_back(written(a.dbias, size,
                          {{a.batch, a.dbias_stride_batch},
                           {a.heads, a.dbias_stride_head},
                           {a.seqlen_q, a.dbias_stride_row},
                           {a.seqlen_k, 1}}));
  } else {
    out.push_back(written(a.out, size, results));
    out.push_back(written(a.lse, 4, lse));
  }
  return out;
}

}  // namespace

TEST_CASE("wrong calls of attention are refused or harmless", "[wrong_calls]") {
  sweep<attention_forward>(
      [](random_bits& random) {
        auto out = legal_attention<attention_forward>(random);
        auto& a = out.a;
        if (coin(random)) place(a.sinks);
        if (a.dtype != dtype::f32 && coin(random)) {
          a.kv_dtype = dtype::f8_e4m3;
          place(a.k_scale), place(a.v_scale);
          a.k_scale_stride = 1;
          if (coin(random)) {
            a.q_dtype = dtype::f8_e4m3;
            place(a.q_scale);
            a.q_scale_stride = 1;
          }
        }
        const auto layout = random() % 3;
        if (layout == 0) {
          make_paged(out, random);
        } else if (layout == 1) {
          place(a.cu_seqlens_k);
          a.tokens_k = a.seqlen_k + 3;
          out.numbers["cu_seqlens_k"] = {0, 3, a.tokens_k};
          if (coin(random)) {
            place(a.seqused_k);
            out.numbers["seqused_k"] = {2, a.seqlen_k};
          }
        } else if (a.kv_dtype != dtype::f8_e4m3 && coin(random)) {
          make_masked(out);
        }
        return out;
      },
      [](const auto& a, const index_numbers& numbers) { return attention_tensors(a, numbers); });
  sweep<attention_decode>(
      [](random_bits& random) {
        auto out = legal_attention<attention_decode>(random);
        auto& a = out.a;
        a.dtype = coin(random) ? dtype::f16 : dtype::bf16;
        a.kv_dtype = coin(random) ? a.dtype : dtype::f8_e4m3;
        if (coin(random)) place(a.sinks);
        if (coin(random)) place(a.k_scale), place(a.v_scale);
        if (coin(random)) make_paged(out, random);
        if (a.kv_dtype == dtype::f8_e4m3 && coin(random)) make_rotary_apart(a, random);
        return out;
      },
      [](const auto& a, const index_numbers& numbers) { return attention_tensors(a, numbers); });
}

TEST_CASE("wrong calls of attention's backward and dropout are refused or harmless", "[wrong_calls]") {
  sweep<attention_backward>(
      [](random_bits& random) {
        auto out = legal_attention<attention_backward>(random);
        auto& a = out.a;
        place(a.dout), place(a.dq), place(a.dk), place(a.dv);
        if (a.bias != nullptr && coin(random)) place(a.dbias);
        if (coin(random)) place(a.dlse);
        if (coin(random)) {
          place(a.cu_seqlens_k);
          a.tokens_k = a.seqlen_k + 3;
          out.numbers["cu_seqlens_k"] = {0, 3, a.tokens_k};
        } else if (random() % 3 == 0) {
          a.dbias = nullptr;
          make_masked(out);
        }
        return out;
      },
      [](const auto& a, const index_numbers& numbers) { return attention_tensors(a, numbers); });
  sweep<attention_dropout_mask>(
      [](random_bits& random) {
        sy::test::wrong_calls<attention_dropout_mask>::call out;
        place(out.a.mask);
        if (coin(random)) place(out.a.dropout_state);
        out.a.batch = up_to(random, 3);
        out.a.heads = up_to(random, 3);
        out.a.seqlen_q = up_to(random, 5);
        out.a.seqlen_k = up_to(random, 9);
        out.a.dropout_p = 0.5F;
        return out;
      },
      [](const attention_dropout_mask::arguments& a, const index_numbers&) -> std::vector<spanned> {
        const auto times = [](std::int64_t x, std::int64_t y) {
          std::int64_t out = 0;
          return __builtin_mul_overflow(x, y, &out) ? INT64_MAX : out;
        };
        const std::int64_t row = a.seqlen_k;
        return {written(a.mask, 4,
                        {{a.batch, times(a.heads, times(a.seqlen_q, row))},
                         {a.heads, times(a.seqlen_q, row)},
                         {a.seqlen_q, row},
                         {a.seqlen_k, 1}}),
                read(a.dropout_state, 8, {{2, 1}})};
      });
}

TEST_CASE("operators were swept", "[wrong_calls]") {  // after the others
  if (swept_operators == 0) skip_program("no kernel of any operator for this device");
}
