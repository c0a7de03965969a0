// SPDX-License-Identifier: MIT
// Checked mode reads the tensors of indices of every call, on a device too, and names the entry that is
// wrong. Off, nothing of a device is read.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <switchyard/check_indices.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>

#include "catch.hpp"
#include "every_argument.hpp"
#include "test_disk.hpp"
#include "thrown.hpp"

namespace checked_mode {

using namespace test;
using namespace sy::operators;
using ints = std::vector<std::int32_t>;
using longs = std::vector<std::int64_t>;

/// Where the device has what the host has at an address: reading there ends the program.
constexpr std::uintptr_t far_away = std::uintptr_t{1} << 62U;

/// A GPU, as far as the library can tell.
class remote_driver final : public sy::tune::forwarding_driver {
 public:
  remote_driver() : forwarding_driver{std::make_shared<sy::host::driver>(1)}, facts_{driver().properties()} {
    facts_.backend = "cuda", facts_.arch = "sm_90", facts_.name = "a GPU";
  }
  [[nodiscard]] const sy::device_properties& properties() const noexcept override { return facts_; }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream on) noexcept override {
    ++launches;
    return driver().launch(function, geometry, parameters, on);
  }
  [[nodiscard]] sy::status copy(void* to, const void* from, std::size_t bytes,
                                sy::stream /*on*/) noexcept override {
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    if ((address & far_away) == 0) return 1;
    is_waited_for = false;
    ++copies;
    std::memcpy(to, reinterpret_cast<const void*>(address ^ far_away), bytes);
    return 0;
  }
  [[nodiscard]] sy::status synchronize(sy::stream /*on*/) noexcept override {
    is_waited_for = true;
    return 0;
  }
  [[nodiscard]] bool capturing(sy::stream /*on*/) const noexcept override { return is_capturing; }

  int launches = 0;
  int copies = 0;
  bool is_waited_for = true;
  bool is_capturing = false;

 private:
  sy::device_properties facts_;
};

/// The same call with its numbers on the device.
template <class Operator>
typename Operator::arguments on_device(typename Operator::arguments a) {
  Operator::fields.for_each([&a]<auto Member>() {
    using value = sy::detail::member_value<Member>;
    if constexpr (std::is_same_v<value, const std::int32_t*> || std::is_same_v<value, const std::int64_t*>) {
      if (a.*Member != nullptr)
        a.*Member = reinterpret_cast<value>(reinterpret_cast<std::uintptr_t>(a.*Member) | far_away);
    }
  });
  return a;
}

/// No template: in one, clang 14 does not destroy what an assignment from braces replaces.
void write_cuda_target(const disk& gpu, std::string_view operator_name) {
  const auto path = gpu.manifest_path(operator_name);
  json manifest = json::parse(read_text(path));
  manifest["target"] = {{"backend", "cuda"}, {"arch", "sm_90"}};
  gpu.write(path, manifest.dump());
}

/// The files of an operator for the CPU, and for the GPU above.
template <class Operator>
struct written_files {
  disk host;
  disk gpu;
  written_files() {
    host.put_manifest(Operator::name, {variant_of_all<Operator>()});
    gpu.put_manifest(Operator::name, {variant_of_all<Operator>()});
    write_cuda_target(gpu, Operator::name);
  }
};

/// A dispatcher with a catalog of its own.
template <class Operator>
struct opened {
  opened(const disk& files, bool is_checked, sy::device target)
      : catalog{options(files, is_checked)}, on{catalog, std::move(target)} {}

  /// What is said of a call; empty where it is launched.
  std::string say(const typename Operator::arguments& call, sy::error_code code) {
    return sy::test::refusal_by<sy::call_error>(code, [&] { on({}, call); });
  }
  /// The same of a call that is only checked.
  std::string check(const typename Operator::arguments& call, sy::error_code code) {
    return sy::test::refusal_by<sy::call_error>(code, [&] { sy::check_indices(on, {}, call); });
  }

  static sy::catalog_options options(const disk& files, bool is_checked) {
    sy::catalog_options out = files.options();
    out.settings.check = is_checked;
    return out;
  }

  sy::catalog catalog;
  sy::dispatcher<Operator> on;
};

/// An operator served in all modes.
template <class Operator>
struct served {
  using arguments = typename Operator::arguments;

  /// A wrong call is refused wherever somebody looks, and launched on the device elsewhere.
  void expect(const arguments& call, const std::string& wrong) {
    INFO(wrong);
    constexpr bool has_indices = requires {
      Operator::check_indices(call);
    };
    constexpr auto on_host = has_indices ? sy::error_code::check_failed : sy::error_code::invalid_argument;
    const arguments remote = on_device<Operator>(call);
    const std::string said = std::string{Operator::name} + ": " + wrong;
    for (int round = 0; round < 2; ++round) {  // a call of a new problem, and a later one
      const int launches = driver->launches;
      driver->copies = 0;
      CHECK_THAT(unchecked.say(remote, {}), no_text());
      CHECK(driver->copies == 0);
      CHECK(driver->launches == launches + 1);
      for (const bool of_one_call : {false, true}) {
        driver->copies = 0;
        const std::string refusal = of_one_call ? unchecked.check(remote, sy::error_code::check_failed)
                                                : checked.say(remote, sy::error_code::check_failed);
        CHECK_THAT(refusal, has_text("[switchyard.307] " + said));
        CHECK(driver->copies > 0);
        CHECK(driver->is_waited_for);
        CHECK(driver->launches == launches + 1);
      }
      CHECK_THAT(checked_host.say(call, on_host), has_text(said));
      CHECK_THAT(host.check(call, on_host), has_text(said));
      const std::string on_its_own = host.say(call, on_host);
      if (has_indices) {
        CHECK_THAT(on_its_own, no_text());
      } else {
        CHECK_THAT(on_its_own, has_text("[switchyard.301] " + said));
      }
    }
  }
  void expect_legal(const arguments& call) {
    for (int round = 0; round < 2; ++round) {
      const int launches = driver->launches;
      CHECK_THAT(checked.say(on_device<Operator>(call), {}), no_text());
      CHECK(driver->launches == launches + 1);
      CHECK_THAT(unchecked.check(on_device<Operator>(call), {}), no_text());
      CHECK(driver->launches == launches + 1);
      CHECK_THAT(checked_host.say(call, {}), no_text());
      CHECK_THAT(host.say(call, {}), no_text());
      CHECK_THAT(host.check(call, {}), no_text());
    }
  }

  const written_files<Operator> files;
  const std::shared_ptr<remote_driver> driver = std::make_shared<remote_driver>();
  opened<Operator> unchecked{files.gpu, false, sy::device{driver}};
  opened<Operator> checked{files.gpu, true, sy::device{driver}};
  opened<Operator> host{files.host, false, sy::device::host()};
  opened<Operator> checked_host{files.host, true, sy::device::host()};
};

sy::const_tensor of(const ints& numbers) {
  return {numbers.data(), sy::dtype::i32, {static_cast<std::int64_t>(numbers.size())}};
}
sy::const_tensor of(const longs& numbers) {
  return {numbers.data(), sy::dtype::i64, {static_cast<std::int64_t>(numbers.size())}};
}

alignas(64) std::array<std::byte, 64> storage{};

/// A tensor that no kernel reads.
template <std::size_t Rank>
sy::tensor some(const std::int64_t (&extents)[Rank], sy::dtype type = sy::dtype::bf16) {
  return {storage.data(), type, extents};
}

/// Three sequences in 12 queries and 20 keys, of at most 5 and 9.
struct packed {
  ints cu_q{0, 4, 4, 9};
  ints cu_k{0, 9, 11, 20};
  ints used_q{4, 0, 5};
  ints used_k{9, 2, 3};

  [[nodiscard]] attention_forward::arguments forward() const {
    const sy::tensor q = some({12, 4, 64});
    const sy::tensor k = some({20, 2, 64});
    return attention_forward::call(q, k, k, q,
                                   {.cu_seqlens_q = of(cu_q),
                                    .cu_seqlens_k = of(cu_k),
                                    .longest_q = 5,
                                    .longest_k = 9,
                                    .seqused_q = of(used_q),
                                    .seqused_k = of(used_k)});
  }
  [[nodiscard]] attention_backward::arguments backward() const {
    const sy::tensor q = some({12, 4, 64});
    const sy::tensor k = some({20, 2, 64});
    attention_backward::options with{
        .cu_seqlens_q = of(cu_q), .cu_seqlens_k = of(cu_k), .longest_q = 5, .longest_k = 9};
    with.seqused_q = of(used_q);
    with.seqused_k = of(used_k);
    return attention_backward::call({.q = q,
                                     .k = k,
                                     .v = k,
                                     .out = q,
                                     .dout = q,
                                     .lse = some({4, 12}, sy::dtype::f32),
                                     .dq = q,
                                     .dk = k,
                                     .dv = k},
                                    with);
  }
};

/// Two sequences in 6 pages of 16 keys, 3 entries each.
struct pages {
  ints table{5, 1, 99, 0, 2, 3};  // the third entry of the first sequence is not used
  ints used{20, 48};

  [[nodiscard]] paged cache() const {
    const sy::tensor k = some({6, 16, 2, 64});
    return {.k = k, .v = k, .block_table = {table.data(), sy::dtype::i32, {2, 3}}, .used = of(used)};
  }
  [[nodiscard]] attention_forward::arguments forward() const {
    const sy::tensor q = some({2, 1, 4, 64});
    return attention_forward::call(q, cache(), q, {.mask = attention_mask::causal_bottom_right});
  }
  [[nodiscard]] attention_decode::arguments decode() const {
    const sy::tensor q = some({2, 1, 4, 64});
    return attention_decode::call(q, cache(), q);
  }
};

template <class Operator, class Call>
void check_packed(const Call& call) {
  served<Operator> all;
  packed good;
  all.expect_legal(call(good));
  packed bad = good;
  bad.cu_q[0] = 1;
  all.expect(call(bad), "cu_seqlens_q[0] is 1: it must be 0");
  bad = good;
  bad.cu_q[2] = 3;
  all.expect(call(bad), "cu_seqlens_q[2] is 3, less than 4 before it: the numbers must not fall");
  bad = good;
  bad.cu_q = {0, 4, 9, 13};
  all.expect(call(bad), "cu_seqlens_q[3] is 13, but q has 12 tokens");
  bad = good;
  bad.cu_k[1] = 10;
  all.expect(call(bad), "cu_seqlens_k[1] is 10: sequence 0 has 10 tokens, but seqlen_k, the longest, is 9");
  bad = good;
  bad.used_q[1] = 1;
  all.expect(call(bad), "seqused_q[1] is 1: it must be at least 0 and at most 0, the length of its sequence");
  bad = good;
  bad.used_k[2] = -5;
  all.expect(call(bad),
             "seqused_k[2] is -5: it must be at least 0 and at most 9, the length of its sequence");
}

template <class Operator, class Call>
void check_pages(const Call& call) {
  served<Operator> all;
  pages good;
  all.expect_legal(call(good));
  pages bad = good;
  bad.table[4] = 6;
  all.expect(call(bad),
             "block_table[1][1] is 6: it must be at least 0 and below 6, the number of pages of k and v");
  bad.table[4] = -1;
  all.expect(call(bad), "block_table[1][1] is -1");
  bad = good;
  bad.used[0] = 40;  // now it is used
  all.expect(call(bad), "block_table[0][2] is 99");
  bad.used[0] = 49;
  all.expect(call(bad), "seqused_k[0] is 49: it must be at least 0 and at most 48, seqlen_k");
  // Arguments that do not tell how many entries there are.
  bad = good;
  bad.table[5] = -7;
  auto unknown = call(bad);
  unknown.pages = unknown.block_table_entries = sy::unset;
  all.expect(unknown, "block_table[1][2] is -7: it must be at least 0");
  bad.table[5] = 1000;
  unknown.block_table = bad.table.data();
  all.expect_legal(unknown);
}

struct turned {
  ints cu{0, 3, 5};
  ints offsets{2, 0};
  longs positions{0, 1, 2, 3, 4, 5};
  [[nodiscard]] rotary::arguments with(const rotary::options& more) const {
    rotary::options all = more;
    all.cos = all.sin = some({8, 32}, sy::dtype::f32);
    if (more.cu_seqlens) {
      const sy::tensor q = some({6, 4, 64});
      return rotary::call(q, {}, q, {}, all);
    }
    const sy::tensor q = some({2, 3, 4, 64});
    return rotary::call(q, {}, q, {}, all);
  }
  [[nodiscard]] rotary::arguments placed() const {
    return with({.positions = {positions.data(), sy::dtype::i64, {2, 3}}});
  }
  [[nodiscard]] rotary::arguments shifted() const { return with({.sequence_offsets = of(offsets)}); }
  [[nodiscard]] rotary::arguments packed() const {
    return with({.positions = of(positions), .cu_seqlens = of(cu), .longest = 3});
  }
};

TEST_CASE("checked mode reads the lengths of packed sequences") {
  check_packed<attention_forward>([](const packed& of) { return of.forward(); });
  check_packed<attention_backward>([](const packed& of) { return of.backward(); });
}

TEST_CASE("checked mode reads the pages that are in use") {
  check_pages<attention_forward>([](const pages& of) { return of.forward(); });
  check_pages<attention_decode>([](const pages& of) { return of.decode(); });
}

TEST_CASE("checked mode reads positions, offsets and lengths of rotary") {
  served<rotary> all;
  const turned good;
  all.expect_legal(good.placed());
  all.expect_legal(good.shifted());
  all.expect_legal(good.packed());
  turned bad = good;
  bad.positions[5] = 8;
  all.expect(bad.placed(),
             "positions[5] is 8: it must be at least 0 and below 8, the number of positions in cos and sin");
  all.expect_legal(bad.packed());  // behind the last sequence
  bad.positions[4] = -1;
  all.expect(bad.packed(), "positions[4] is -1: it must be at least 0");
  bad.offsets[0] = 6;
  all.expect(bad.shifted(), "sequence_offsets[0] is 6, and the sequence has 3 tokens");
  // The positions that wrong lengths would count are not read.
  bad.cu[2] = INT32_MAX;
  all.expect(bad.packed(), "cu_seqlens[2] is 2147483647");
}

TEST_CASE("checked mode reads positions and slots of rotary_cache") {
  served<rotary_cache> all;
  longs positions{0, 1, 7};
  longs slots{11, -1, 0};
  const sy::tensor q = some({3, 4, 64});
  const sy::tensor k = some({3, 2, 64});
  const sy::tensor cache = some({3, 4, 2, 64});
  const sy::tensor cos = some({8, 32}, sy::dtype::f32);
  const auto call = rotary_cache::call(
      q, k, k, cache, cache, {.cos = cos, .sin = cos, .positions = of(positions), .slots = of(slots)}, {});
  all.expect_legal(call);
  positions[2] = 8;
  all.expect(call, "positions[2] is 8: it must be at least 0 and below 8");
  positions[2] = 7;
  slots[0] = 12;
  all.expect(call, "slots[0] is 12: it must be below 12, the slots of 3 pages of 4");
}

TEST_CASE("checked mode refuses ids outside the table, which give rows of NaN elsewhere") {
  served<embedding> all;
  ints ids{0, 9, 4};
  const auto call =
      embedding::call({storage.data(), weight_format::f16, 10, 64}, of(ids), some({3, 64}, sy::dtype::f16));
  all.expect_legal(call);
  ids[1] = 10;
  all.expect(call, "ids[1] is 10: it must be at least 0 and below 10, the number of rows of the table");
  ids[1] = -1;
  all.expect(call, "ids[1] is -1: it must be at least 0");
}

TEST_CASE("checked mode says once that a captured call is not checked") {
  served<embedding> all;
  const ints ids{77};
  const auto call = on_device<embedding>(
      embedding::call({storage.data(), weight_format::f16, 10, 64}, of(ids), some({1, 64}, sy::dtype::f16)));
  all.checked.on.prepare(call);
  all.driver->is_capturing = true;
  for (int i = 0; i < 3; ++i) CHECK_THAT(all.checked.say(call, {}), no_text());
  CHECK(all.driver->copies == 0);
  CHECK(all.driver->launches == 3);
  const std::string log = all.files.gpu.log();
  const std::string said = "embedding: calls that are captured into a graph are not checked";
  REQUIRE(log.find(said) != std::string::npos);
  CHECK(log.find(said, log.find(said) + 1) == std::string::npos);
  all.driver->is_capturing = false;
  CHECK_THAT(all.checked.say(call, sy::error_code::check_failed), has_text("ids[0] is 77"));
}

TEST_CASE("checked mode says what it could not read, and counts what it refuses") {
  served<embedding> all;
  const ints ids{3};
  auto call =
      embedding::call({storage.data(), weight_format::f16, 10, 64}, of(ids), some({1, 64}, sy::dtype::f16));
  const auto problem =
      sy::test::error_of<sy::driver_error>([&] { all.checked.on({}, call); });  // an address of the host
  CHECK(problem.code() == sy::error_code::driver_failed);
  CHECK_THAT(std::string{problem.what()}, has_text("embedding: checked mode cannot read ids"));
  CHECK(all.driver->launches == 0);
  call.rows = std::int64_t{1} << 40;
  CHECK_THAT(all.checked.say(on_device<embedding>(call), sy::error_code::check_failed),
             has_text("ids would have 1099511627776 numbers: no device holds as many"));
  const auto counted = all.checked.catalog.counters();
  REQUIRE(counted.operators.size() == 1);
  std::uint64_t refused = 0;
  for (const auto& error : counted.operators.front().errors) {
    if (error.code == static_cast<int>(sy::error_code::check_failed)) refused += error.count;
  }
  CHECK(refused == 1);
}

}  // namespace checked_mode
