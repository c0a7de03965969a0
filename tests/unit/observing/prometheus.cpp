// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>

#include <switchyard/observing/prometheus.hpp>

using namespace switchyard;

namespace {
[[nodiscard]] catalog_counters two_operators() {
  catalog_counters out;
  out.operators.resize(2);
  out.operators[0].name = "rotary";
  out.operators[0].plans = 3;
  out.operators[0].choices[static_cast<std::size_t>(reason::exact)] = 2;
  out.operators[0].errors = {{210, 1}, {302, 4}};
  out.operators[1].name = "od\"d\\\n";
  out.operators[1].failed_loads = 7;
  out.reloads = 5;
  out.generation = 9;
  out.warnings = {{0, 1}, {206, 2}};
  return out;
}
}  // namespace

TEST_CASE("each metric has its help and type once, before its lines") {
  std::istringstream text{to_prometheus(two_operators())};
  std::set<std::string> known;
  std::string current;
  bool has_type = false;
  for (std::string line; std::getline(text, line);) {
    CAPTURE(line);
    std::istringstream words{line};
    std::string hash;
    std::string word;
    std::string name;
    if (line.starts_with("#")) {
      words >> hash >> word >> name;
      CHECK(name.starts_with("switchyard_"));
      if (word == "HELP") {
        CHECK(known.insert(name).second);
        current = name;
        has_type = false;
      } else {
        REQUIRE(word == "TYPE");
        CHECK(name == current);
        std::string type;
        words >> type;
        CHECK(type == (name.ends_with("_total") ? "counter" : "gauge"));
        has_type = true;
      }
    } else {
      CHECK(has_type);
      CHECK(line.substr(0, line.find_first_of("{ ")) == current);
      CHECK(line.find_last_not_of("0123456789") == line.rfind(' '));
    }
  }
  CHECK(known.size() == 21);
}

TEST_CASE("counters are labelled by operator, reason and code, and labels are escaped") {
  const std::string text = to_prometheus(two_operators());
  for (const char* const line :
       {"\nswitchyard_plans_total{operator=\"rotary\"} 3\n",
        "\nswitchyard_choices_total{operator=\"rotary\",reason=\"exact\"} 2\n",
        "\nswitchyard_errors_total{operator=\"rotary\",code=\"302\"} 4\n",
        "\nswitchyard_failed_loads_total{operator=\"od\\\"d\\\\\\n\"} 7\n", "\nswitchyard_reloads_total 5\n",
        "\nswitchyard_generation 9\n", "\nswitchyard_warnings_total{code=\"206\"} 2\n"})
    CHECK_THAT(text, has_text(line));
}

TEST_CASE("codes that no error has are counted together") {
  code_counts counts;
  for (const int code : {101, 101, 306, 0, -1, 999, 100, 132, 199, 331}) counts.count(code);
  const std::vector<counted_code> found = counts.read();
  REQUIRE(found.size() == 4);
  CHECK(found[0].code == 0);
  CHECK(found[0].count == 6);
  CHECK(found[1].code == 101);
  CHECK(found[1].count == 2);
  CHECK(found[2].code == 306);
  CHECK(found[3].code == 331);
}
