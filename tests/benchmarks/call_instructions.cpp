// SPDX-License-Identifier: MIT
// The instructions that calls made from tensors take before the dispatcher, as callgrind counts them.
//
//   valgrind --tool=callgrind --callgrind-out-file=FILE call_instructions
//
// Eight calls alternate, whose pointers, sizes and strides all differ. Each part is dumped twice: with the
// arguments made, and `empty`, the same loop without. call_instructions.py reads them. Allocations end the
// program.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <valgrind/callgrind.h>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>

namespace {

namespace sy = switchyard;
using namespace sy::operators;

constexpr int calls_counted = 1600;
bool may_allocate = true;

alignas(4096) std::array<std::byte, 1 << 16> memory;

/// What an engine knows of a call.
struct shape {
  void* q;
  void* k;
  void* v;
  void* out;
  std::int64_t batch, seqlen, heads, heads_kv, dim, gap;
};

shape shape_of(int i) {
  auto* const first = memory.data() + 1024 * i;
  return {first, first + 256, first + 512, first + 768, 1 + i % 4, 128 + 16 * i, 32, 8, 128, 64 * (i / 4)};
}

struct views {
  sy::tensor q, k, v, out, pages, table, used, cos;
};

views views_of(const shape& s) {
  const std::int64_t token = s.heads * s.dim + s.gap;
  const std::int64_t token_kv = s.heads_kv * s.dim + s.gap;
  using sy::dtype;
  views out;
  out.q = {s.q, dtype::bf16, {s.batch, s.seqlen, s.heads, s.dim}, {s.seqlen * token, token, s.dim, 1}};
  out.k = {
      s.k, dtype::bf16, {s.batch, s.seqlen, s.heads_kv, s.dim}, {s.seqlen * token_kv, token_kv, s.dim, 1}};
  out.v = {
      s.v, dtype::bf16, {s.batch, s.seqlen, s.heads_kv, s.dim}, {s.seqlen * token_kv, token_kv, s.dim, 1}};
  out.out = {s.out, dtype::bf16, {s.batch, s.seqlen, s.heads, s.dim}, {s.seqlen * token, token, s.dim, 1}};
  out.pages = {s.k, dtype::bf16, {100, 64, s.heads_kv, s.dim}, {64 * token_kv, token_kv, s.dim, 1}};
  out.table = {s.v, dtype::i32, {s.batch, 16}};
  out.used = {s.v, dtype::i32, {s.batch}};
  out.cos = {s.v, dtype::f32, {4096, s.dim / 2}};
  return out;
}

template <class Value>
[[gnu::always_inline]] inline void touch(Value& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

template <class Make, class Items>
[[gnu::noinline]] void run(const Items& items, const Make& make) {
  for (int i = 0; i < calls_counted; ++i) {
    const auto& item = items[static_cast<std::size_t>(i) % items.size()];
    touch(item);
    make(item);
  }
}

template <class Make, class Items>
void measure(const char* name, const Items& items, const Make& make) {
  const std::string made = std::string{name} + " made";
  const std::string empty = std::string{name} + " empty";
  may_allocate = false;
  CALLGRIND_ZERO_STATS;
  run(items, make);
  CALLGRIND_DUMP_STATS_AT(made.c_str());
  CALLGRIND_ZERO_STATS;
  run(items, [](const auto&) {});
  CALLGRIND_DUMP_STATS_AT(empty.c_str());
  may_allocate = true;
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (!may_allocate) std::abort();
  void* const out = std::malloc(bytes);
  if (out == nullptr) std::abort();
  return out;
}
void operator delete(void* address) noexcept {
  std::free(address);
}
void operator delete(void* address, std::size_t /*bytes*/) noexcept {
  std::free(address);
}

int main() {
  std::array<shape, 8> shapes{};
  std::array<views, 8> all{};
  for (int i = 0; i < 8; ++i) {
    shapes[static_cast<std::size_t>(i)] = shape_of(i);
    all[static_cast<std::size_t>(i)] = views_of(shapes[static_cast<std::size_t>(i)]);
  }
  constexpr auto causal = attention_mask::causal_bottom_right;
  measure("attention_forward.views", all, [](const views& v) {
    const auto call = attention_forward::call(v.q, v.k, v.v, v.out, {.mask = causal});
    touch(call);
  });
  measure("attention_forward.in_place", shapes, [](const shape& s) {
    using sy::dtype;
    const std::int64_t token = s.heads * s.dim + s.gap;
    const std::int64_t token_kv = s.heads_kv * s.dim + s.gap;
    const auto call = attention_forward::call(
        {s.q, dtype::bf16, {s.batch, s.seqlen, s.heads, s.dim}, {s.seqlen * token, token, s.dim, 1}},
        {s.k, dtype::bf16, {s.batch, s.seqlen, s.heads_kv, s.dim}, {s.seqlen * token_kv, token_kv, s.dim, 1}},
        {s.v, dtype::bf16, {s.batch, s.seqlen, s.heads_kv, s.dim}, {s.seqlen * token_kv, token_kv, s.dim, 1}},
        {s.out, dtype::bf16, {s.batch, s.seqlen, s.heads, s.dim}, {s.seqlen * token, token, s.dim, 1}},
        {.mask = causal});
    touch(call);
  });
  measure("attention_forward.paged", all, [](const views& v) {
    const auto call =
        attention_forward::call(v.q, paged{v.pages, v.pages, v.table, v.used, 1000}, v.out, {.mask = causal});
    touch(call);
  });
  measure("rotary.in_place", all, [](const views& v) {
    const auto call = rotary::in_place(v.q, v.k, {.cos = v.cos, .sin = v.cos});
    touch(call);
  });
  return 0;
}
