// Attention backward on the GPU, through catalog and dispatcher: the calls of the forward test, less paging
// and sinks, each by every variant that may serve it, against the f64 reference; deterministic ones twice,
// for the same bits. Steered by the forward test's variables.
#include <switchyard/cuda/driver.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "random_backward_call.hpp"

TEST_CASE("attention backward on the GPU: random calls by every variant", "[attention]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_backward> variants{sy::device{sy::cuda::open(0)}};
  const std::uint32_t calls = number("SWITCHYARD_TEST_CALLS", 200);
  const std::uint32_t seed = number("SWITCHYARD_TEST_SEED", std::random_device{}());
  constexpr std::array<const char*, 4> names{"dq", "dk", "dv", "dbias"};
  std::size_t launches = 0;
  std::size_t failures = 0;
  constexpr std::uint32_t portion = 64;
  for (std::uint32_t from = 0; from < calls; from += portion) {
    std::vector<std::unique_ptr<backward_call>> some(std::min(portion, calls - from));
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < some.size(); i = next++) {
          some[i] = std::make_unique<backward_call>(seed + from + static_cast<std::uint32_t>(i));
        }
      });
    }
    for (std::thread& worker : workers) worker.join();

    for (std::size_t i = 0; i < some.size(); ++i) {
      const backward_call& each = *some[i];
      REQUIRE(attention_backward::check(each.a) == "");
      device_memory memory;
      const auto before = each.forward.first * sy::size_of(each.a.dtype);
      attention_backward::arguments a = each.a;
      a.q = memory.copy(each.forward.q) + before;
      a.k = memory.copy(each.forward.k) + before;
      a.v = memory.copy(each.forward.v) + before;
      a.out = memory.copy(each.out) + before;
      a.dout = memory.copy(each.dout) + before;
      a.lse = memory.copy(each.lse);
      std::array<std::byte*, 4> results{};
      for (std::size_t n = 0; n < results.size(); ++n) results[n] = memory.poisoned(each.bytes(n));
      a.dq = results[0] + before;
      a.dk = results[1] + before;
      a.dv = results[2] + before;
      if (a.dbias != nullptr) a.dbias = results[3];
      if (a.bias != nullptr) a.bias = memory.copy(each.forward.bias);
      if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(each.forward.slopes);
      if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(each.forward.cu_q);
      if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(each.forward.cu_k);
      if (a.seqused_q != nullptr) a.seqused_q = memory.copy(each.forward.used_q);
      if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.forward.used_k);
      if (a.dropout_state != nullptr) a.dropout_state = memory.copy(each.forward.state);

      const auto run = [&](sy::dispatcher<attention_backward>& dispatcher) {
        for (std::size_t n = 0; n < results.size(); ++n) {
          raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(results[n]),
                    static_cast<unsigned char>(0xFF), std::max<std::size_t>(each.bytes(n), 16));
        }
        raw::call("cuCtxSynchronize");
        dispatcher(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        std::array<std::vector<std::byte>, 4> found;
        for (std::size_t n = 0; n < results.size(); ++n) {
          found[n].resize(each.bytes(n));
          if (found[n].empty()) continue;
          raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found[n].data()),
                    reinterpret_cast<unsigned long long>(results[n]), found[n].size());
        }
        return found;
      };
      const auto check = [&](const std::string& id, sy::dispatcher<attention_backward>& dispatcher) {
        const auto found = run(dispatcher);
        std::string wrong;
        for (std::size_t n = 0; n < results.size() && wrong.empty(); ++n) {
          wrong = differences(names[n], each.expected[n], each.limits[n], a.dtype, found[n]);
        }
        if (wrong.empty() && a.deterministic && run(dispatcher) != found) wrong = "other bits in another run";
        if (wrong.empty()) return;
        ++failures;
        UNSCOPED_INFO("seed " << seed + from + i << ": " << each.forward.text() << ", " << id << ": "
                              << wrong);
        if (failures < 50) CHECK(wrong.empty());
      };
      const std::vector<std::string> serving = variants.serving(a);
      INFO(each.forward.text());
      REQUIRE(!serving.empty());
      for (const std::string& id : serving) check(id, variants.forced(id));
      check("the chosen", variants.free());
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
  REQUIRE(failures == 0);
}
