// SPDX-License-Identifier: MIT
// Comparisons of variants at real calls, and what follows: times, rows, denials, the canary's return.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <switchyard/live.hpp>
#include <switchyard/operators/built_in.hpp>
#include <switchyard/tensors/result_tensor.hpp>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;

/// `stamp`, which says where its result lies.
struct live_stamp : stamp {
  using number = sy::view<&stamp::arguments::out, sy::dtype::i32>;
  template <class Visitor>
  static void visit_results(const arguments& /*a*/, Visitor& visit) {
    visit.template operator()<number>();
  }
};

/// Takes as long as the number that a variant of `stamp` writes says, by a clock of its own.
class numbered_clock final : public sy::tune::forwarding_driver {
 public:
  numbered_clock() : forwarding_driver{std::make_shared<sy::host::driver>(1)} {}

  std::map<int, double> microseconds;  ///< by number; 100 else
  double direction = 1;
  bool is_capturing = false;
  bool is_full = false;
  void (*after)(numbered_clock& by, void** parameters) = nullptr;  ///< each launch

  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream on) noexcept override {
    const int number = *static_cast<const std::int32_t*>(parameters[1]);
    const auto known = microseconds.find(number);
    now_ += direction * (known != microseconds.end() ? known->second : 100);
    const sy::status result = driver().launch(function, geometry, parameters, on);
    if (after != nullptr) after(*this, parameters);
    return result;
  }
  [[nodiscard]] sy::event_handle create_event() override { return new double{0}; }
  void destroy_event(sy::event_handle event) noexcept override { delete static_cast<double*>(event); }
  [[nodiscard]] sy::status record(sy::event_handle event, sy::stream /*on*/) noexcept override {
    *static_cast<double*>(event) = now_;
    return 0;
  }
  [[nodiscard]] sy::status elapsed(sy::event_handle from, sy::event_handle to,
                                   double& microseconds_between) noexcept override {
    microseconds_between = *static_cast<double*>(to) - *static_cast<double*>(from);
    return 0;
  }
  [[nodiscard]] void* allocate(std::size_t bytes, sy::stream on) noexcept override {
    return is_full ? nullptr : driver().allocate(bytes, on);
  }
  [[nodiscard]] bool capturing(sy::stream /*on*/) const noexcept override { return is_capturing; }

 private:
  double now_ = 0;
};

/// Variants "fast" and "slow" by a table; the numbers that they write are given.
struct measured {
  explicit measured(const std::vector<json>& variants) {
    files.put_manifest("stamp", variants);
    files.write(files.table_path("stamp"), preferring("fast", "slow").dump());
  }
  [[nodiscard]] static json preferring(const char* first, const char* second) {
    json out = disk::make_table("stamp", {stamp_group({row(1, 1, {{first, 1.0}, {second, 2.0}}),
                                                       row(1, 1'000'000, {{first, 1.0}, {second, 2.0}})})});
    out["match"] = {{"seqlen", {{"log", 2}}}};
    out["neighbours"] = 3;
    return out;
  }
  [[nodiscard]] sy::device device() const { return sy::device{clock}; }

  disk files;
  std::shared_ptr<numbered_clock> clock = std::make_shared<numbered_clock>();
};

[[nodiscard]] std::vector<json> agreeing() {
  json fast = stamp_variant("fast", 7);
  json slow = stamp_variant("slow", 7);
  slow["config"]["tile"] = 1;
  return {fast, slow};
}

[[nodiscard]] int run_stamp(sy::dispatcher<live_stamp>& with, std::int64_t seqlen = 1) {
  std::int32_t out = -1;
  with({}, {.out = &out, .seqlen = seqlen});
  return out;
}

[[nodiscard]] sy::live_comparison compare(sy::dispatcher<live_stamp>& with, std::int64_t seqlen = 1,
                                          const sy::live_compare_options& options = {}) {
  std::int32_t out = -1;
  const sy::live_comparison found = compare_live(with, {}, {.out = &out, .seqlen = seqlen}, options);
  CHECK(out == -1);  // the call's own result is never written
  return found;
}

}  // namespace

TEST_CASE("the winner and a runner-up are timed in turns at a real call, and make a row") {
  const measured made{agreeing()};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  const sy::live_comparison found = compare(on);
  REQUIRE(found.outcome == sy::comparison_outcome::compared);
  CHECK(found.winner.id == "fast");
  CHECK(found.rival.id == "slow");
  CHECK(found.winner.times_us.size() == 8);
  CHECK(found.regret() == 0);
  CHECK_FALSE(found.is_canary);

  const sy::live_report report = catalog.live();
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].variants.size() == 2);
  CHECK_THAT(to_string(report), has_text("regret 0 %"));
  CHECK(catalog.counters().operators.at(0).live_comparisons == 1);

  const auto paths = catalog.write_live_tables((made.files.root() / "live").string());
  REQUIRE(paths.size() == 1);
  const json table = json::parse(read_text(paths[0]));
  CHECK(table["operator"] == "stamp");
  CHECK(table["measured"]["rows"] == 1);
  REQUIRE(table["groups"].size() == 1);
  CHECK(table["groups"][0]["type"] == json{{"dtype", "f32"}});  // of the rows that decide now
  CHECK(table["groups"][0]["rows"][0]["times_us"].size() == 2);
  CHECK(table["groups"][0]["blobs"].size() == 2);
  CHECK(table["match"] ==
        json{{"batch", "log"}, {"seqlen", {{"log", 2}}}});  // of the table that it is to join
  CHECK(table["neighbours"] == 3);

  sy::catalog_options with = made.files.options();
  with.tables = {paths[0]};
  sy::catalog next{std::move(with)};
  sy::dispatcher<live_stamp> decided{next, made.device()};
  CHECK(decided.explain({}).table == paths[0]);
  CHECK(decided.explain({}).chosen.why == sy::reason::exact);
}

TEST_CASE("the regret seen is that of the winner against the fastest that it was compared with") {
  json third = stamp_variant("third", 9);
  std::vector<json> variants{stamp_variant("fast", 7), stamp_variant("slow", 7), third};
  const measured made{variants};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  made.clock->after = [](numbered_clock& /*by*/, void** parameters) {
    // All write the same; only the clock tells them apart.
    **static_cast<std::int32_t**>(parameters[0]) = 7;
  };
  made.clock->microseconds = {{7, 300}, {9, 100}};
  CHECK(compare(on).regret() == 0);
  const sy::live_comparison second = compare(on, 1, {.runner_up = 2});
  CHECK(second.rival.id == "third");
  CHECK(second.regret() == Approx(2));
  CHECK(catalog.live().regret == Approx(2));
  CHECK(catalog.live().problems.at(0).regret == Approx(2));
}

TEST_CASE("a runner-up that is wrong is denied, stays denied after a reload, and returns with another blob") {
  const measured made{{stamp_variant("fast", 7), stamp_variant("slow", 8)}};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  CHECK(run_stamp(on) == 7);
  const std::uint64_t generation = catalog.generation();
  const sy::live_comparison found = compare(on);
  REQUIRE(found.outcome == sy::comparison_outcome::differs);
  CHECK(found.denied == "slow");
  CHECK_THAT(found.text, has_text("'slow' differs from 'fast', which serves it: out: 1 of 1 values differ"));
  CHECK(catalog.generation() > generation);
  CHECK(catalog.counters().operators.at(0).live_denials == 1);
  CHECK_THAT(made.files.log(), has_text("variant 'slow' of stamp is out of service"));
  CHECK(compare(on).outcome == sy::comparison_outcome::no_rival);
  CHECK_THAT(to_string(catalog.live()), has_text("slow is denied"));
  std::int32_t out = 0;
  CHECK_THAT(to_string(on.explain({.out = &out})), has_text("fast"));

  made.files.write(made.files.table_path("stamp"), measured::preferring("slow", "fast").dump());
  (void)catalog.reload();
  CHECK(run_stamp(on) == 7);  // the table prefers it in vain

  const auto paths = catalog.write_live_tables((made.files.root() / "live").string());
  REQUIRE(paths.size() == 1);
  CHECK(json::parse(read_text(paths[0]))["deny"][0]["variant"] == "slow");

  json mended = stamp_variant_in("mended.so", "slow", 7);
  made.files.put_blob("stamp", "stamp.so", "mended.so");
  {
    std::ofstream grown{made.files.kernels("stamp") / "mended.so", std::ios::binary | std::ios::app};
    grown << "another build";
  }
  made.files.put_manifest("stamp", {stamp_variant("fast", 9), mended});
  (void)catalog.reload();
  CHECK(run_stamp(on) == 7);  // by "slow"
}

TEST_CASE("a winner that two others contradict is denied, and the next one serves") {
  const measured made{{stamp_variant("fast", 6), stamp_variant("slow", 7), stamp_variant("third", 7)}};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  CHECK(run_stamp(on) == 6);
  const sy::live_comparison found = compare(on);
  CHECK(found.denied == "fast");
  CHECK_THAT(found.text, has_text("differs from 'slow' and 'third'"));
  CHECK(run_stamp(on) == 7);
}

TEST_CASE("inputs that change meanwhile deny nobody") {
  const measured made{agreeing()};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  made.clock->after = [](numbered_clock& /*by*/, void** parameters) {
    static int count = 0;
    **static_cast<std::int32_t**>(parameters[0]) = ++count;
  };
  const sy::live_comparison found = compare(on);
  CHECK(found.outcome == sy::comparison_outcome::unsteady);
  CHECK(found.denied.empty());
  CHECK(catalog.counters().operators.at(0).live_denials == 0);
}

TEST_CASE("what cannot be compared says why") {
  const measured made{agreeing()};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  const auto why = [&](const sy::live_compare_options& options = {}) {
    const sy::live_comparison found = compare(on, 1, options);
    CHECK(found.outcome == sy::comparison_outcome::not_possible);
    return found.text;
  };
  CHECK_THAT(why({.max_bytes = 3}), has_text("the results have 4 bytes, more than 3"));
  made.clock->is_capturing = true;
  CHECK_THAT(why(), has_text("the stream is being captured"));
  made.clock->is_capturing = false;
  made.clock->is_full = true;
  CHECK_THAT(why(), has_text("there is no memory for the results"));
  made.clock->is_full = false;
  sy::dispatcher<stamp> silent{catalog, made.device()};  // it does not say where its result lies
  std::int32_t out = -1;
  CHECK_THAT(compare_live(silent, {}, {.out = &out}).text, has_text("out: its extents are not known"));
  CHECK(out == -1);
}

TEST_CASE("a clock that runs backwards gives no times and no row") {
  const measured made{agreeing()};
  sy::catalog catalog{made.files.options()};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  made.clock->direction = -1;
  const sy::live_comparison found = compare(on);
  CHECK(found.outcome == sy::comparison_outcome::compared);
  CHECK(found.winner.times_us.empty());
  CHECK(catalog.write_live_tables((made.files.root() / "live").string()).empty());
}

TEST_CASE("new tables return by themselves where their choices take longer") {
  const measured made{agreeing()};
  const std::string fresh = (made.files.root() / "new.json").string();
  made.files.write(fresh, measured::preferring("slow", "fast").dump());
  sy::catalog_options options = made.files.options();
  options.canary = {{fresh}, 1, 0.05, 4};
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<live_stamp> on{catalog, made.device()};
  std::int32_t out = 0;
  const auto serves = [&] { return on.explain({.out = &out}).variant; };
  CHECK(serves() == "slow");

  SECTION("as long as they are no slower they stay") {
    for (int i = 0; i < 8; ++i) CHECK(compare(on).is_canary);
    CHECK(serves() == "slow");
  }
  SECTION("slower ones go after enough comparisons") {
    made.files.put_manifest("stamp", {stamp_variant("fast", 7), stamp_variant("slow", 8)});
    made.clock->microseconds = {{7, 100}, {8, 120}};
    made.clock->after = [](numbered_clock& /*by*/, void** parameters) {
      **static_cast<std::int32_t**>(parameters[0]) = 7;
    };
    (void)catalog.reload();
    REQUIRE(serves() == "slow");
    const std::uint64_t generation = catalog.generation();
    for (int i = 0; i < 3; ++i) {
      const sy::live_comparison found = compare(on, 1 + i);
      CHECK(found.is_canary);
      CHECK(found.rival.id == "fast");
      CHECK(found.regret() == Approx(0.2));
      CHECK(serves() == "slow");
    }
    (void)compare(on, 4);
    CHECK(serves() == "fast");
    CHECK(catalog.generation() > generation);
    CHECK(catalog.counters().operators.at(0).canary_returns == 1);
    CHECK_THAT(made.files.log(), has_text("take 20.0 % longer than the others' over 4 comparisons of stamp"));
    (void)catalog.set_canary_share(1);  // another trial
    CHECK(serves() == "slow");
  }
}

TEST_CASE("calls are timed while files are replaced, and times of replaced plans are kept") {
  const measured made{agreeing()};
  sy::catalog_options options = made.files.options();
  options.live.one_in = 1;
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<live_stamp> on{catalog, fresh_host()};
  for (int i = 0; i < 5; ++i) CHECK(run_stamp(on) == 7);
  made.files.write(made.files.table_path("stamp"), measured::preferring("slow", "fast").dump());
  CHECK(catalog.reload().changed.size() == 1);  // with events that were not read yet
  for (int i = 0; i < 5; ++i) CHECK(run_stamp(on) == 7);
  const sy::live_report report = catalog.live();
  REQUIRE(report.problems.size() == 1);
  REQUIRE(report.problems[0].variants.size() == 2);
  CHECK(report.problems[0].variants[0].calls.count >= 4);
  CHECK(report.problems[0].variants[1].calls.count >= 4);
}

TEST_CASE("a recorded, ranged and timed call runs as others do") {
  const measured made{agreeing()};
  sy::catalog_options options = made.files.options();
  options.live.one_in = 2;
  options.settings.record = (made.files.root() / "record").string();
  {
    sy::catalog catalog{std::move(options)};
    sy::dispatcher<live_stamp> on{catalog, fresh_host()};
    for (int i = 0; i < 9; ++i) CHECK(run_stamp(on) == 7);
    CHECK(catalog.live().problems.at(0).variants.at(0).calls.count == 4);
  }
  CHECK_THAT(read_text(made.files.root() / "record"), has_text("stamp"));
}

TEST_CASE("threads compare and call while files are replaced") {
  const measured made{agreeing()};
  sy::catalog_options options = made.files.options();
  options.live.one_in = 3;
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<live_stamp> on{catalog, fresh_host()};
  std::atomic<bool> stops{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < 2; ++t) {
    all.emplace_back([&] {
      for (std::int64_t i = 1; !stops; i = i % 50 + 1) {
        std::int32_t out = 0;
        on({}, {.out = &out, .seqlen = i});
        if (out != 7) ++wrong;
      }
    });
  }
  all.emplace_back([&] {
    for (std::int64_t i = 1; !stops; i = i % 50 + 1) {
      std::int32_t out = -1;
      (void)compare_live(on, {}, {.out = &out, .seqlen = i}, {.turns = 2});
      if (out != -1) ++wrong;
    }
  });
  for (int i = 0; i < 10; ++i) {
    const bool is_even = i % 2 == 0;
    made.files.write(made.files.table_path("stamp"),
                     measured::preferring(is_even ? "slow" : "fast", is_even ? "fast" : "slow").dump());
    (void)catalog.reload();
  }
  stops = true;
  for (std::thread& thread : all) thread.join();
  CHECK(wrong == 0);
  CHECK(catalog.live().denials.empty());
}

TEST_CASE("built-in operators say where their results lie") {
  std::vector<sy::result_tensor> found;
  std::vector<float> x(64);
  std::vector<float> y(64);
  const sy::tensor in{std::span{x}, {4, 16}};
  const sy::tensor out{std::span{y}, {4, 16}};
  CHECK_THAT(sy::find_results<sy::operators::softmax>(sy::operators::softmax::call(in, out), found),
             no_text());
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "out");
  CHECK(found[0].bytes == 256);
  CHECK(found[0].address == reinterpret_cast<std::byte*>(y.data()));

  const sy::tensor half{y.data(), sy::dtype::f32, {4, 8}, {16, 1}};
  const sy::tensor half_in{x.data(), sy::dtype::f32, {4, 8}, {16, 1}};
  std::vector<float> rstd(4);
  const auto norm = sy::operators::rms_norm::call(half_in, half, {.rstd = {std::span{rstd}, {4}}});
  CHECK_THAT(sy::find_results<sy::operators::rms_norm>(norm, found), no_text());
  REQUIRE(found.size() == 2);
  CHECK(found[0].bytes == (3 * 16 + 8) * 4);
  CHECK(found[1].name == "rstd");
  CHECK(found[1].bytes == 16);

  sy::operators::attention_forward::arguments packed;
  std::int32_t cu = 0;
  packed.out = y.data();
  packed.cu_seqlens_q = &cu;
  CHECK_THAT(sy::find_results<sy::operators::attention_forward>(packed, found), has_text("out: its extents"));
  packed.tokens_q = 2;
  packed.heads = 2;
  packed.head_dim_v = 8;
  packed.out_stride_token = 16;
  packed.out_stride_head = 8;
  CHECK_THAT(sy::find_results<sy::operators::attention_forward>(packed, found), no_text());
  REQUIRE(found.size() == 1);
  CHECK(found[0].bytes == 128);
}
