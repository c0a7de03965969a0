// SPDX-License-Identifier: MIT
// Folders and files that cannot be read for a while, or are gone. A symbolic link to itself stands for what
// cannot be read: unlike permissions it also stops root.
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"

namespace {

using namespace test;
namespace fs = std::filesystem;

/// Makes a path unreadable for the life of the object.
class unreadable {
 public:
  explicit unreadable(fs::path path) : path_{std::move(path)}, aside_{path_.parent_path() / ".aside"} {
    fs::rename(path_, aside_);
    fs::create_symlink(path_, path_);
  }
  unreadable(const unreadable&) = delete;
  unreadable& operator=(const unreadable&) = delete;
  ~unreadable() {
    fs::remove(path_);
    fs::rename(aside_, path_);
  }

 private:
  fs::path path_;
  fs::path aside_;
};

/// Two variants, and a table that prefers the second.
disk with_two_preferred() {
  return {"stamp",
          {stamp_variant("one", 1), stamp_variant("two", 2)},
          {stamp_group({row(1, 1, {{"one", 2.0}, {"two", 1.0}})})}};
}

}  // namespace

TEST_CASE("what lies in a folder that cannot be read stays in use, with one warning") {
  const disk files = with_two_preferred();
  const fs::path place = GENERATE(fs::path{}, fs::path{"kernels"}, fs::path{"kernels/stamp"},
                                  fs::path{"tables/stamp"}, fs::path{"tables/stamp/here.json"});
  const fs::path target = place.empty() ? files.kernels("stamp") : files.root() / place;
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 2);
  for (int time = 0; time < 2; ++time) {
    {
      const unreadable meanwhile{target};
      for (int i = 0; i < 3; ++i) {
        INFO(place);
        CHECK(on.catalog.reload().changed.empty());
        CHECK(run(on, {.seqlen = 1 + i}) == 2);
        sy::dispatcher<stamp> fresh{on.catalog, fresh_host()};
        CHECK(fresh.explain({}).variant == "two");
      }
      INFO(files.log());
      CHECK(count_of(files.log(), "warning") == static_cast<std::size_t>(time) + 1);
      CHECK_THAT(files.log(), has_text("[switchyard.101] " + target.string()) &&
                                  has_text(": cannot be read") && has_text("stays in use"));
    }
    (void)on.catalog.reload();
    CHECK(run(on, {}) == 2);
  }
  fs::remove(files.table_path("stamp"));
  CHECK(on.catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1);  // known to be gone
}

TEST_CASE("when an operator's last manifest goes, a warning says so and its variants stay") {
  const disk files = with_two_preferred();
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 2);
  fs::rename(files.root() / "kernels", files.root() / "elsewhere");
  for (int i = 0; i < 3; ++i) {
    (void)on.catalog.reload();
    CHECK(run(on, {.seqlen = 1 + i}) == 2);
  }
  CHECK_THAT(files.log(), has_text("[switchyard.302] stamp: its last manifest was removed"));
  CHECK(count_of(files.log(), "last manifest") == 1);
  fs::rename(files.root() / "elsewhere", files.root() / "kernels");
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 2);
  files.put_manifest("stamp", {stamp_variant("one", 1)});
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a file that is replaced by one of the same size, with its old times, is noticed") {
  const disk files = with_two_preferred();
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 2);
  const fs::path table = files.table_path("stamp");
  const auto written = fs::last_write_time(table);
  std::string text = read_text(table);
  const std::size_t size = text.size();
  text = disk::make_table("stamp", {stamp_group({row(1, 1, {{"one", 1.0}, {"two", 2.0}})})}).dump();
  REQUIRE(text.size() == size);
  std::ofstream{table, std::ios::binary} << text;  // in place: the inode stays
  fs::last_write_time(table, written);
  CHECK(on.catalog.reload().changed.size() == 1);
  CHECK(run(on, {}) == 1);
}

TEST_CASE("a file that could not be opened for want of descriptors is read by the next reload") {
  const disk files{"stamp", {stamp_variant("one", 1), stamp_variant("two", 2)}};
  disk_dispatcher<stamp> on{files, fresh_host()};
  CHECK(run(on, {}) == 1);
  files.put_table("stamp", {stamp_group({row(1, 1, {{"one", 2.0}, {"two", 1.0}})})});
  {
    ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int next = ::dup(0);
    REQUIRE(next >= 0);
    ::close(next);
    ::rlimit none = before;
    none.rlim_cur = static_cast<::rlim_t>(next);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    (void)on.catalog.reload();
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(run(on, {}) == 1);
  }
  (void)on.catalog.reload();
  CHECK(run(on, {}) == 2);
}
