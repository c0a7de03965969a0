// Attention forward on the GPU, through catalog and dispatcher: random calls over all axes, each run by every
// variant that may serve it, against the f64 reference. SWITCHYARD_TEST_CALLS says how many calls,
// SWITCHYARD_TEST_SEED from which seed on.
#include <switchyard/cuda/driver.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "random_call.hpp"

TEST_CASE("attention forward on the GPU: random calls by every variant", "[attention]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_forward> variants{sy::device{sy::cuda::open(0)}};
  const std::uint32_t calls = number("SWITCHYARD_TEST_CALLS", 300);
  const std::uint32_t seed = number("SWITCHYARD_TEST_SEED", std::random_device{}());
  std::size_t launches = 0;
  std::size_t failures = 0;
  constexpr std::uint32_t portion = 64;
  for (std::uint32_t from = 0; from < calls; from += portion) {
    std::vector<std::unique_ptr<call>> some(std::min(portion, calls - from));
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < some.size(); i = next++) {
          some[i] = std::make_unique<call>(seed + from + static_cast<std::uint32_t>(i));
          some[i]->compute();
        }
      });
    }
    for (std::thread& worker : workers) worker.join();

    for (std::size_t i = 0; i < some.size(); ++i) {
      const call& each = *some[i];
      REQUIRE(attention_forward::check(each.a) == "");
      device_memory memory;
      const auto size = sy::size_of(each.a.dtype);
      const auto before = each.first * size;
      arguments a = each.a;
      a.q = memory.copy(each.q) + before;
      a.k = memory.copy(each.k) + before;
      a.v = memory.copy(each.v) + before;
      const auto out_bytes = static_cast<std::size_t>(each.out_elements * size);
      std::byte* const out = memory.poisoned(out_bytes);
      a.out = out + before;
      const auto lse_bytes = static_cast<std::size_t>(each.lse_elements) * sizeof(float);
      std::byte* const lse = memory.poisoned(lse_bytes);
      a.lse = each.with_lse ? reinterpret_cast<float*>(lse) : nullptr;
      if (a.bias != nullptr) a.bias = memory.copy(each.bias);
      if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(each.slopes);
      if (a.sinks != nullptr) a.sinks = memory.copy(each.sinks);
      if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(each.cu_q);
      if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(each.cu_k);
      if (a.seqused_q != nullptr) a.seqused_q = memory.copy(each.used_q);
      if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.used_k);
      if (a.block_table != nullptr) a.block_table = memory.copy(each.table);
      if (a.dropout_state != nullptr) a.dropout_state = memory.copy(each.state);

      const auto check = [&](const std::string& id, sy::dispatcher<attention_forward>& dispatcher) {
        raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(out),
                  static_cast<unsigned char>(0xFF), std::max<std::size_t>(out_bytes, 16));
        raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(lse),
                  static_cast<unsigned char>(0xFF), std::max<std::size_t>(lse_bytes, 16));
        raw::call("cuCtxSynchronize");  // the kernel's stream does not wait for the fill
        dispatcher(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        std::vector<std::byte> found(std::max(out_bytes, lse_bytes));
        raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                  reinterpret_cast<unsigned long long>(out), out_bytes);
        std::string wrong = differences("out", each.expected, each.limit, a.dtype, found);
        if (wrong.empty()) {
          raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                    reinterpret_cast<unsigned long long>(lse), lse_bytes);
          wrong = differences("lse", each.expected_lse, each.limit_lse, dtype::f32, found);
        }
        if (wrong.empty()) return;
        ++failures;
        UNSCOPED_INFO("seed " << seed + from + i << ": " << each.text() << ", " << id << ": " << wrong);
        if (failures < 50) CHECK(wrong.empty());
      };
      const std::vector<std::string> serving = variants.serving(a);
      INFO(each.text());
      REQUIRE(!serving.empty());
      for (const std::string& id : serving) check(id, variants.forced(id));
      check("the chosen", variants.free());
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
  REQUIRE(failures == 0);
}
