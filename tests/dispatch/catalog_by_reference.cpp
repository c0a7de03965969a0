// SPDX-License-Identifier: MIT
// Files that are given a catalog need the dispatcher's header only; this one opens the catalog.
#include <cstdint>
#include <memory>

#include "catch.hpp"
#include "test_disk.hpp"

namespace dispatcher_alone {

std::int32_t sum_of_calls(switchyard::catalog& catalog, const switchyard::device& target);

}  // namespace dispatcher_alone

namespace {

/// Every stream is the CPU's, whatever devices there are.
class cpu_router final : public switchyard::stream_router {
 public:
  [[nodiscard]] switchyard::device of(switchyard::stream /*on*/) override {
    return switchyard::device::host();
  }
  [[nodiscard]] std::uintptr_t key(switchyard::stream /*on*/) noexcept override { return 1; }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return false; }
};

}  // namespace

TEST_CASE("a file that includes only the dispatcher's header calls through a catalog it is given") {
  const test::disk files;
  files.put_manifest(
      "solo",
      {{{"id", "only"},
        {"config", {{"number", 21}}},
        {"launches",
         {{{"blob", "stamp.so"}, {"kernel", "stamp"}, {"parameters", {"out", {{"i32", "number"}}}}}}}}});
  switchyard::catalog_options options = files.options();
  options.streams = std::make_shared<cpu_router>();
  switchyard::catalog catalog{options};
  CHECK(dispatcher_alone::sum_of_calls(catalog, switchyard::device::host()) == 42);
}
