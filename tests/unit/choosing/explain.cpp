// SPDX-License-Identifier: MIT
#include <catch.hpp>

#include <switchyard/choosing/explain.hpp>

using namespace switchyard;

namespace {

explanation sample_explanation(reason why) {
  explanation out;
  out.operator_name = "scale";
  out.problem = "dtype=f16 rows=4";
  out.device = "Card 90 (cuda sm_90)";
  out.variant = "small";
  out.config = "block_m=64";
  out.target = "cuda sm_90a";
  out.table = "card90.json";
  out.table_group = 2;
  out.table_row = 7;
  out.row_at = "rows=8";
  out.chosen.variant = 0;
  out.chosen.why = why;
  out.chosen.distance = 1.234F;
  out.chosen.microseconds = 41.234F;
  return out;
}

}  // namespace

TEST_CASE("the sentence names operator, problem, device, variant, config, target, row, reason and time") {
  CHECK(to_string(sample_explanation(reason::exact)) ==
        "scale {dtype=f16 rows=4} on Card 90 (cuda sm_90): small {block_m=64} [cuda sm_90a], exact: row 7 of "
        "group 2 of card90.json (rows=8), measured 41.2 us");
  CHECK_THAT(to_string(sample_explanation(reason::interpolated)),
             has_text("interpolated: nearest row 7 of group 2 of card90.json (rows=8) at distance 1.23, "
                      "predicted 41.2 us"));
  CHECK_THAT(to_string(sample_explanation(reason::extrapolated)),
             has_text("at distance 1.23, outside the table's envelope, predicted"));
  explanation other = sample_explanation(reason::other_device);
  other.chosen.rank = table_rank::same_arch;
  other.chosen.stale = true;
  CHECK_THAT(to_string(other), has_text("other device (same_arch): nearest row 7") &&
                                   has_text("; stale: the blob changed since it was measured"));
}

TEST_CASE("forced, pinned, heuristic and missing choices are said as what they are") {
  explanation why = sample_explanation(reason::forced);
  why.chosen.microseconds = 0;
  why.note = "SWITCHYARD_FORCE=scale:small";
  CHECK_THAT(to_string(why), has_text(", forced: SWITCHYARD_FORCE=scale:small"));
  CHECK(to_string(why).find(" us") == std::string::npos);
  why.chosen.why = reason::pinned;
  why.note = "by hand";
  CHECK(format_reason(why) == "pinned by card90.json: by hand");
  why.note.clear();
  CHECK(format_reason(why) == "pinned by card90.json");
  why.chosen.why = reason::heuristic;
  CHECK_THAT(format_reason(why), has_text("heuristic: "));
  why.chosen.why = reason::none;
  why.variant.clear();
  CHECK(to_string(why) == "scale {dtype=f16 rows=4} on Card 90 (cuda sm_90): no variant serves it");
}

TEST_CASE("every reason and rank has a name") {
  for (int i = 0; i <= static_cast<int>(reason::none); ++i)
    CHECK_FALSE(to_string(static_cast<reason>(i)).empty());
  CHECK(to_string(reason::other_device) == "other_device");
  CHECK(to_string(table_rank::same_backend) == "same_backend");
}
