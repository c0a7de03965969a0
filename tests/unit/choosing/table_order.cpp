// SPDX-License-Identifier: MIT
#include <catch.hpp>

#include <switchyard/choosing/table_order.hpp>

#include "sample_tables.hpp"

namespace {

using namespace switchyard;

table dated(const char* path, const char* date, device_properties device = sample_tables::card()) {
  table out;
  out.path = path;
  out.device = std::move(device);
  out.measured_on = date;
  return out;
}

}  // namespace

TEST_CASE("the more specific table comes first, then the newer one, and an undated one last") {
  const table newer = dated("a/z.json", "2026-11-22");
  const table older = dated("a/a.json", "2026-11-20");
  const table undated = dated("a/0.json", "");
  const table broad = dated("a/b.json", "2026-11-25", {"cuda", "sm_90", "", {}});
  CHECK(comes_before(newer, older));
  CHECK_FALSE(comes_before(older, newer));
  CHECK(comes_before(older, undated));
  CHECK_FALSE(comes_before(undated, older));
  CHECK(comes_before(undated, broad));
  CHECK_FALSE(comes_before(broad, undated));
  CHECK_FALSE(comes_before(newer, dated("b/0.json", "2026-11-22")));  // the search path decides
  CHECK_FALSE(comes_before(dated("b/0.json", "2026-11-22"), newer));
  CHECK_FALSE(comes_before(newer, newer));
}

TEST_CASE(
    "a table whose rows are not used is said to be less specific, older, undated, or later on the path") {
  const table used = dated("root/t/b.json", "2026-11-22");
  CHECK(why_lost(dated("root/t/a.json", "2026-11-20"), used) == "measured 2026-11-20, older");
  CHECK(why_lost(dated("root/t/a.json", ""), used) == "undated");
  CHECK(why_lost(dated("root/t/c.json", "2026-11-22"), used) == "measured 2026-11-22 too, a later name");
  CHECK(why_lost(dated("other/t/a.json", "2026-11-22"), used) == "measured 2026-11-22 too, in a later root");
  CHECK(why_lost(dated("root/t/c.json", ""), dated("root/t/b.json", "")) == "undated too, a later name");
  CHECK(why_lost(dated("c.json", ""), dated("b.json", "")) == "undated too, a later name");
  CHECK(why_lost(dated("a.json", "2026-11-25", {"cuda", "sm_90", "", {}}), used) ==
        "measured 2026-11-25, its device names less");
  CHECK(why_lost(used, used) == "measured 2026-11-22, later in the same file");
}
