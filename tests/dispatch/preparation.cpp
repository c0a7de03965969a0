// SPDX-License-Identifier: MIT
// Loading beforehand, and captures, inside which nothing may be loaded.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
/// Three variants in three blobs, each the fastest in a range of sequence lengths.
void put_ranges(const disk& files) {
  std::vector<json> variants;
  for (int i = 1; i <= 3; ++i) {
    const std::string blob = "stamp" + std::to_string(i) + ".so";
    files.write(files.kernels("stamp") / blob,
                read_text(disk::built("stamp.so")) + std::string(8, 'x') + blob);
    json variant = stamp_variant("v" + std::to_string(i), i);
    variant["launches"][0]["blob"] = blob;
    variants.push_back(variant);
  }
  files.put_manifest("stamp", variants);
  files.put_table("stamp", {stamp_group({row(1, 16, {{"v1", 1.0}, {"v2", 2.0}, {"v3", 4.0}}),
                                         row(1, 256, {{"v1", 4.0}, {"v2", 1.0}, {"v3", 4.0}}),
                                         row(1, 4096, {{"v1", 4.0}, {"v2", 2.0}, {"v3", 1.0}})})});
}

struct served_ranges {
  const disk files;
  const std::shared_ptr<faulty_driver> driver = std::make_shared<faulty_driver>();
  sy::catalog catalog{(put_ranges(files), files.options())};
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
};

}  // namespace

TEST_CASE_METHOD(served_ranges, "prepare(problem) loads what its call needs, and no more") {
  CHECK(driver->loads == 0);
  on.prepare({.seqlen = 256});
  CHECK(driver->loads == 1);
  CHECK(driver->launches == 0);
  CHECK(run(on, {.seqlen = 256}) == 2);
  CHECK(driver->loads == 1);
  CHECK(run(on, {.seqlen = 4096}) == 3);
  CHECK(driver->loads == 2);
  CHECK_THROWS_AS(on.prepare({.dtype = sy::dtype::f16}), sy::call_error);
}

TEST_CASE_METHOD(served_ranges, "after prepare(range) no call within it loads anything") {
  on.prepare({}, {{"seqlen", 1, 300}});
  CHECK(driver->loads == 2);
  for (std::int64_t seqlen = 1; seqlen <= 300; ++seqlen) (void)run(on, {.seqlen = seqlen});
  CHECK(driver->loads == 2);
  on.prepare({}, {{"batch", 1, 64}, {"seqlen", 1, 1 << 20}});  // too many to decide one by one
  CHECK(driver->loads == 3);
  for (std::int64_t batch = 1; batch <= 64; batch += 7) {
    for (std::int64_t seqlen = 1; seqlen <= 1 << 20; seqlen += 1 + seqlen / 5) {
      (void)run(on, {.batch = batch, .seqlen = seqlen});
    }
  }
  CHECK(driver->loads == 3);
}

TEST_CASE("what a replacement tries of prepared ranges is bounded, with the problems that tables measured") {
  const disk files;
  put_ranges(files);
  std::vector<json> rows;
  for (int i = 1; i <= 3000; ++i) rows.push_back(row(1, 1000 * i, {{"v1", 1.0}, {"v2", 2.0}}));
  rows.push_back(row(1, 12'345'678, {{"v1", 2.0}, {"v3", 1.0}}));
  files.put_table("stamp", {stamp_group(rows)});
  sy::catalog catalog{files.options()};
  const auto driver = std::make_shared<faulty_driver>();
  sy::dispatcher<stamp> on{catalog, sy::device{driver}};
  struct holder final : sy::state_user {
    std::unique_ptr<sy::operator_state> taken;
    bool adopt(std::unique_ptr<sy::operator_state>&& fresh) override {
      taken = std::move(fresh);
      return true;
    }
    [[nodiscard]] const sy::operator_state* in_use() const noexcept override { return taken.get(); }
    void free_replaced() override {}
  } user;
  const auto& op = sy::describe<stamp>();
  catalog.attach(op, sy::device{driver}, user);
  const stamp::arguments call{};
  const std::vector<sy::axis_span> spans{{"seqlen", 1, 1 << 30}};
  const auto ranges = sy::detail::read_ranges(op, sy::make_problem<stamp>(call), &call, spans);
  CHECK(sy::detail::load_ranges(*user.taken, ranges) > 10'000);
  CHECK(driver->loads == 2);  // the last row's winner, too
  for (const std::size_t most : {1U, 10U, 1000U, 3001U}) {
    const std::size_t tried = sy::detail::load_ranges(*user.taken, ranges, most);
    CHECK(tried <= 2 * most);
    CHECK(tried >= most);
  }
  catalog.detach(user);
}

TEST_CASE("prepare refuses a range that is none") {
  const disk files;
  put_ranges(files);
  disk_dispatcher<stamp> on{files, sy::device::host()};
  CHECK_THROWS_WITH(on.prepare({}, {{"seqlem", 1, 2}}), has_text("'seqlem'") && has_text("no such axis"));
  CHECK_THROWS_WITH(on.prepare({}, {{"seqlen", 3, 2}}),
                    has_text("from 3 to 2") && has_text("not a valid range"));
  CHECK_THROWS_WITH(on.prepare({}, {{"seqlen", -1, 2}}), has_text("not a valid range"));
}

TEST_CASE("a range in which some problem has no variant is an error that shows it") {
  const disk files;
  json variant = stamp_variant("short", 1);
  variant["requires"] = {"seqlen < 100"};
  files.put_manifest("stamp", {variant});
  disk_dispatcher<stamp> on{files, sy::device::host()};
  on.prepare({}, {{"seqlen", 1, 99}});
  CHECK_THROWS_WITH(on.prepare({}, {{"seqlen", 1, 100}}),
                    has_text("seqlen=100") && has_text("requires seqlen < 100"));
}

TEST_CASE_METHOD(served_ranges,
                 "inside a capture nothing is loaded: the call is refused unless it was prepared") {
  driver->is_capturing = true;
  for (int i = 0; i < 2; ++i) {
    const auto problem = sy::test::error_of<sy::driver_error>([&] { return run(on, {.seqlen = 256}); });
    CHECK(problem.code() == sy::error_code::load_during_capture);
    CHECK_THAT(problem.what(), has_text("'v2'") && has_text("prepare()"));
  }
  CHECK(driver->loads == 0);
  on.prepare({.seqlen = 256});
  CHECK(run(on, {.seqlen = 256}) == 2);
  CHECK(run(on, {.seqlen = 257}) == 2);  // another problem, the same kernels
  CHECK_THROWS_AS(run(on, {.seqlen = 4096}), sy::driver_error);
  driver->is_capturing = false;
  CHECK(run(on, {.seqlen = 4096}) == 3);
  CHECK(files.log().empty());
}

TEST_CASE_METHOD(served_ranges,
                 "asking for the workspace prepares the call, but loads nothing inside a capture") {
  driver->is_capturing = true;
  CHECK_THROWS_WITH(on.workspace_bytes({.seqlen = 256}), has_text("[switchyard.212]"));
  CHECK(driver->loads == 0);
  driver->is_capturing = false;
  CHECK(on.workspace_bytes({.seqlen = 256}) == 0);
  CHECK(driver->loads == 1);
  driver->is_capturing = true;  // the plan was kept
  CHECK(on.workspace_bytes({.seqlen = 256}) == 0);
  CHECK(run(on, {.seqlen = 256}) == 2);
  CHECK(driver->loads == 1);
}

TEST_CASE_METHOD(served_ranges,
                 "a replaced catalog has loaded what the running problems need before it serves them") {
  CHECK(run(on, {.seqlen = 256}) == 2);
  files.put_table("stamp", {stamp_group({row(1, 256, {{"v3", 1.0}, {"v1", 2.0}})})});
  (void)catalog.reload();
  CHECK(driver->loads == 2);
  driver->is_capturing = true;  // the first call after the reload finds everything loaded
  CHECK(run(on, {.seqlen = 256}) == 3);
}
