// SPDX-License-Identifier: MIT
// New tables for a share of the problems.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <switchyard/serving/canary_selectors.hpp>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "threads.hpp"

namespace {

using namespace test;

[[nodiscard]] json preferring(const char* fast, const char* slow) {
  return disk::make_table(
      "stamp",
      {stamp_group({row(1, 1, {{fast, 1.0}, {slow, 2.0}}), row(1, 1'000'000, {{fast, 1.0}, {slow, 2.0}})})});
}

/// Tables that prefer "one", and new ones that prefer "two".
struct two_tables {
  disk files;
  std::string fresh = (files.root() / "new.json").string();

  two_tables() {
    files.put_manifest("stamp", {stamp_variant("one", 1), stamp_variant("two", 2)});
    files.write(files.table_path("stamp"), preferring("one", "two").dump());
    files.write(fresh, preferring("two", "one").dump());
  }
  [[nodiscard]] sy::catalog_options options(double share) const {
    sy::catalog_options out = files.options();
    out.canary = {{fresh}, share};
    return out;
  }
};

/// The sizes up to 1,000 that new tables decide.
[[nodiscard]] std::set<std::int64_t> decided_by_new(sy::dispatcher<stamp>& on) {
  std::set<std::int64_t> out;
  for (std::int64_t seqlen = 1; seqlen <= 1000; ++seqlen) {
    if (run(on, {.seqlen = seqlen}) == 2) out.insert(seqlen);
  }
  return out;
}

}  // namespace

TEST_CASE("new tables decide their share of the problems, the same ones in every catalog") {
  const two_tables made;
  sy::catalog first{made.options(0.1)};
  sy::dispatcher<stamp> on{first, fresh_host()};
  const std::set<std::int64_t> found = decided_by_new(on);
  CHECK(found.size() > 70);  // of 1,000 coins, within four standard deviations
  CHECK(found.size() < 140);
  sy::catalog second{made.options(0.1)};
  sy::dispatcher<stamp> again{second, fresh_host()};
  CHECK(decided_by_new(again) == found);

  const std::int64_t of_new = *found.begin();
  CHECK(on.explain({.seqlen = of_new}).chosen.why != sy::reason::heuristic);
  CHECK_THAT(to_string(on.explain({.seqlen = of_new})), has_text("new.json"));
  std::int64_t of_old = 1;
  while (found.contains(of_old)) ++of_old;
  CHECK_THAT(to_string(on.explain({.seqlen = of_old})), has_text("here.json"));
}

TEST_CASE("a share grows and is taken back while calls run, and changes nothing else") {
  const two_tables made;
  sy::catalog catalog{made.options(0)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(decided_by_new(on).empty());
  const std::uint64_t generation = catalog.generation();
  (void)catalog.set_canary_share(0.05);
  CHECK(catalog.generation() > generation);
  const std::set<std::int64_t> few = decided_by_new(on);
  CHECK_FALSE(few.empty());
  (void)catalog.set_canary_share(0.5);
  const std::set<std::int64_t> half = decided_by_new(on);
  CHECK(half.size() > 430);
  CHECK(half.size() < 570);
  for (const std::int64_t value : few) CHECK(half.contains(value));
  (void)catalog.set_canary_share(1);
  CHECK(decided_by_new(on).size() == 1000);
  const std::uint64_t before = catalog.generation();
  (void)catalog.set_canary_share(1);
  CHECK(catalog.generation() == before);  // nothing changed
  (void)catalog.set_canary_share(0);
  CHECK(decided_by_new(on).empty());
}

TEST_CASE("new tables are replaced and removed as others are, and damaged ones leave theirs in use") {
  const two_tables made;
  sy::catalog catalog{made.options(1)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  CHECK(run(on, {}) == 2);
  made.files.write(made.fresh, "{");
  CHECK(catalog.reload().refused.size() == 1);
  CHECK(run(on, {}) == 2);
  made.files.write(made.fresh, preferring("one", "two").dump());
  CHECK(catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1);
  made.files.write(made.fresh, preferring("two", "one").dump());
  (void)catalog.reload();
  CHECK(run(on, {}) == 2);
  std::filesystem::remove(made.fresh);
  (void)catalog.reload();
  CHECK(run(on, {}) == 1);
}

TEST_CASE("ranges that were prepared load what new tables choose") {
  const two_tables made;
  const auto driver = std::make_shared<faulty_driver>();
  sy::catalog catalog{made.options(0.5)};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  on.prepare({}, {{"seqlen", 1, 100}});
  catalog.seal({.load = sy::seal_action::refuse});
  for (std::int64_t seqlen = 1; seqlen <= 100; ++seqlen) CHECK(run(on, {.seqlen = seqlen}) > 0);
  CHECK(catalog.sealed().loads == 0);
}

TEST_CASE("hosts with another share, or other new tables, have another fingerprint") {
  const two_tables made;
  const auto& op = sy::describe<stamp>();
  const sy::device device = fresh_host();
  const auto of = [&](double share) {
    sy::catalog catalog{made.options(share)};
    return catalog.fingerprint(op, device.driver()->properties());
  };
  const sy::fingerprint none = of(0);
  const sy::fingerprint few = of(0.1);
  CHECK(few.hash == of(0.1).hash);
  CHECK_THAT(describe_difference(few, of(0.2)), has_text("share of the canary of stamp differs"));
  CHECK_THAT(describe_difference(none, few), has_text("canary of stamp"));
  made.files.write(made.fresh, preferring("one", "two").dump());
  CHECK_THAT(describe_difference(few, of(0.1)), has_text("canary of stamp new.json differs"));
  sy::catalog without{made.files.options()};
  CHECK(without.fingerprint(op, device.driver()->properties()).hash == none.hash);
}

TEST_CASE("a share that is none is refused") {
  const two_tables made;
  for (const double share : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_WITH(
        sy::catalog{made.options(share)},
        has_text("[switchyard.301] the share of a canary is ") && has_text("but must be 0 to 1"));
    sy::catalog catalog{made.options(0.5)};
    CHECK_THROWS_AS(catalog.set_canary_share(share), sy::call_error);
  }
}

TEST_CASE("a share changes under threads that call, and no call fails") {
  const two_tables made;
  sy::catalog catalog{made.options(0.5)};
  sy::dispatcher<stamp> on{catalog, fresh_host()};
  std::atomic<bool> stops{false};
  std::atomic<int> wrong{0};
  auto all = sy::test::start_threads(3, [&](int t) {
    for (std::int64_t i = 1; !stops; i = i % 200 + 1) {
      const int ran = run(on, {.batch = t + 1, .seqlen = i});
      if (ran != 1 && ran != 2) ++wrong;
    }
  });
  for (int i = 0; i < 20; ++i) (void)catalog.set_canary_share(i % 2 == 0 ? 0.2 : 0.8);
  stops = true;
  sy::test::join_all(all);
  CHECK(wrong == 0);
  CHECK(sy::is_of_canary("stamp", std::vector<std::int64_t>{1, 2}, 1));
  CHECK_FALSE(sy::is_of_canary("stamp", std::vector<std::int64_t>{1, 2}, 0));
}
