// SPDX-License-Identifier: MIT
// A table as it is written: every kind of entry, in its order and layout.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/files/json.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>

#include "../sample_operator.hpp"

using namespace switchyard;

TEST_CASE("a table is written as it was read, sorted, and reads as what was written") {
  const std::string text = R"({
  "schema": "switchyard.table/1",
  "operator": "scale",
  "device": {"backend": "cuda", "arch": "sm_90", "name": "Card \"90\"", "multiprocessors": 132},
  "measured": {"date": "2026-11-21", "samples": {"least": 5, "most": 15}, "before": [
    {"date": "2026-11-20", "note": "1980 MHz"},
    {"date": "2026-11-19"}]},
  "match": {"rows": "exact", "columns": {"linear": 256}},
  "neighbours": 4,
  "envelope": 0.75,
  "deny": [
    {"variant": "c", "type": {"dtype": "f16", "masked": true}, "reason": "wrong"},
    {"variant": "d", "reason": ""}],
  "pin": [
    {"variant": "a", "type": {"dtype": "bf16"}, "at": {"columns": [1, 64], "rows": 1}, "reason": "by hand"},
    {"variant": "b", "reason": ""}],
  "groups": [
    {"type": {},
     "axes": ["columns"],
     "rows": [
       {"at": [7], "times_us": {"z": 1e-05}}]},
    {"type": {"dtype": "bf16"},
     "axes": ["rows", "columns"],
     "blobs": {"a": "1111", "c": "3333"},
     "rows": [
       {"at": [1, 64], "times_us": {"a": 2, "b": 2.01, "c": 3}},
       {"at": [2, 8], "times_us": {"b": 1.25}},
       {"at": [2, 64], "times_us": {"a": 2, "b": 2.01}, "first": "b", "uncertainty": 0.02}]}
  ]
}
)";
  warnings warned;
  const table read = parse_table(text, "t.json", sample::description(), warned);
  REQUIRE(warned.messages.empty());
  std::vector<measurement> runs(3);
  runs[0].date = "2026-11-21";
  runs[0].samples = {5, 15};
  runs[1].date = "2026-11-20";
  runs[1].note = "1980 MHz";
  runs[2].date = "2026-11-19";
  CHECK(format_table(sample::description(), read, runs) == text);
}
