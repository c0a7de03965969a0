// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch.hpp>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_manifest.hpp>

#include "../sample_operator.hpp"
#include "environment.hpp"
#include "sample_tables.hpp"
#include "sanitized.hpp"

using namespace switchyard;
using namespace sample_tables;

TEST_CASE("every row of a large table is found as an exact one, and nothing else is") {
  std::mt19937_64 random{switchyard::test::seed_or(11)};
  auto measured = empty_table({"a", "b"});
  row_group& group = measured->groups[0];
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
  for (std::int64_t rows = 1; rows <= 300; ++rows) {
    for (std::int64_t columns = 16; columns <= 160; columns += 16) sizes.emplace_back(rows, columns);
  }
  for (std::size_t i = 0; i < 200; ++i) sizes.emplace_back(static_cast<std::int64_t>(random() >> 1U), 7);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool first = i % 3 == 0;
    add_row(group, sizes[i].first, sizes[i].second, {first ? 1.0F : 2.0F, first ? 2.0F : 1.0F});
  }
  std::vector<std::string> warned;
  const auto rules = build_selector(
      {&sample::description(), card(), {manifest_with({"a", "b"})}, {}, {measured}, ""}, warned);
  CHECK(warned.empty());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const choice chosen =
        rules->select(sample::problem({{"rows", sizes[i].first}, {"columns", sizes[i].second}}));
    REQUIRE(chosen.why == reason::exact);
    REQUIRE(chosen.variant == (i % 3 == 0 ? 0U : 1U));
    REQUIRE(rules->groups[0].origins[chosen.row].row == i);
  }
  CHECK(rules->select(sample::problem({{"rows", 10}, {"columns", 17}})).why == reason::interpolated);
}

TEST_CASE("a choice is the one that its rule gives when it is computed plainly over all rows") {
  // Few enough rows that the index searches all of them; neighbours, weights and scores as select.hpp says.
  std::mt19937 random{switchyard::test::seed_or(5)};
  const auto uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>{low, high}(random);
  };
  int decided_differently_from_nearest = 0;
  for (int round = 0; round < 40; ++round) {
    auto measured = empty_table({"a", "b", "c"});
    row_group& group = measured->groups[0];
    std::set<std::pair<std::int64_t, std::int64_t>> sizes;
    std::vector<std::array<double, 2>> points;
    std::vector<std::array<double, 3>> times;
    for (int i = 0; i < 60; ++i) {
      const auto rows = static_cast<std::int64_t>(std::exp2(uniform(0, 12)));
      const auto columns = static_cast<std::int64_t>(std::exp2(uniform(4, 14)));
      if (!sizes.emplace(rows, columns).second) continue;
      const std::array<double, 3> measured_times{uniform(1, 4), uniform(1, 4), uniform(1, 4)};
      add_row(group, rows, columns,
              {static_cast<float>(measured_times[0]), static_cast<float>(measured_times[1]),
               static_cast<float>(measured_times[2])});
      points.push_back({std::log2(static_cast<double>(rows)), std::log2(static_cast<double>(columns))});
      times.push_back(measured_times);
    }
    std::vector<std::string> warned;
    const auto rules = build_selector(
        {&sample::description(), card(), {manifest_with({"a", "b", "c"})}, {}, {measured}, ""}, warned);
    for (int query = 0; query < 40; ++query) {
      const auto rows = static_cast<std::int64_t>(std::exp2(uniform(0, 13)));
      const auto columns = static_cast<std::int64_t>(std::exp2(uniform(3, 15)));
      const choice chosen = rules->select(sample::problem({{"rows", rows}, {"columns", columns}}));
      if (chosen.why == reason::exact) continue;
      std::vector<std::pair<double, std::size_t>> near;
      for (std::size_t i = 0; i < points.size(); ++i) {
        const double x = points[i][0] - std::log2(static_cast<double>(rows));
        const double y = points[i][1] - std::log2(static_cast<double>(columns));
        near.emplace_back(x * x + y * y, i);
      }
      std::sort(near.begin(), near.end());
      std::array<double, 3> score{};
      double weights = 0;
      double best_logs = 0;
      for (std::size_t k = 0; k < 8; ++k) {
        const double weight = 1 / ((near[k].first + 0.05) * (near[k].first + 0.05));
        const auto& row = times[near[k].second];
        const double best = *std::min_element(row.begin(), row.end());
        for (std::size_t v = 0; v < 3; ++v) score[v] += weight * std::log2(row[v] / best);
        weights += weight;
        best_logs += weight * std::log2(best);
      }
      const auto expected =
          static_cast<std::size_t>(std::min_element(score.begin(), score.end()) - score.begin());
      INFO("rows " << rows << ", columns " << columns);
      const double margin = score[chosen.variant] - score[expected];
      REQUIRE(margin <= 1e-3 * weights);  // the same, or as good within float arithmetic
      CHECK(static_cast<double>(chosen.distance) ==
            Approx(std::sqrt(near[0].first)).epsilon(1e-3).margin(1e-3));
      CHECK(static_cast<double>(chosen.microseconds) ==
            Approx(std::exp2((best_logs + score[chosen.variant]) / weights)).epsilon(1e-2));
      CHECK(chosen.why == (std::sqrt(near[0].first) <= 1.5 ? reason::interpolated : reason::extrapolated));
      const auto& nearest = times[near[0].second];
      if (static_cast<std::size_t>(std::min_element(nearest.begin(), nearest.end()) - nearest.begin()) !=
          expected)
        ++decided_differently_from_nearest;
    }
  }
  CHECK(decided_differently_from_nearest > 100);
}

TEST_CASE("a variant measured only where it shines gains nothing by it") {
  auto measured = empty_table({"steady", "rare"});
  row_group& group = measured->groups[0];
  add_row(group, 16, 1024, {1.0F, 0.9F});
  for (const std::int64_t rows : {8, 32}) {
    group.at.push_back(rows);
    group.at.push_back(1024);
    group.times.push_back({0, 1.0F});
    group.first_time.push_back(static_cast<std::uint32_t>(group.times.size()));
    group.source_row.push_back(0);
  }
  std::vector<std::string> warned;
  const auto rules = build_selector(
      {&sample::description(), card(), {manifest_with({"steady", "rare"})}, {}, {measured}, ""}, warned);
  const choice chosen = rules->select(sample::problem({{"rows", 16}, {"columns", 1030}}));
  CHECK(chosen.why == reason::interpolated);
  CHECK(chosen.variant == 1);  // near its own row the rare one counts
  CHECK(rules->select(sample::problem({{"rows", 16}, {"columns", 1024}})).variant == 1);
}

TEST_CASE("times are carried to a problem in proportion to the variants' costs") {
  // Tiles of 64 and of 16 rows over 4 multiprocessors: at 256 rows both fill them, at 272 the larger tiles
  // need a second wave.
  auto measured = empty_table({"coarse", "fine", "plain"});
  measured->device.set("multiprocessors", 4);
  add_row(measured->groups[0], 256, 1024, {10.0F, 10.4F, 12.0F});
  const auto rules_with = [&](const char* coarse, const char* fine, const char* plain,
                              std::int64_t multiprocessors, const char* name = "Card 90") {
    auto variants = std::make_shared<manifest>(*manifest_with({"coarse", "fine", "plain"}));
    std::size_t i = 0;
    for (const char* text : {coarse, fine, plain}) {
      if (*text != 0) {
        variants->variants[i].cost = {text,
                                      expression::parse(text, detail::make_scope(sample::description()))};
      }
      ++i;
    }
    device_properties device = card();
    device.name = name;
    device.set("multiprocessors", multiprocessors);
    std::vector<std::string> warned;
    auto rules = build_selector({&sample::description(), device, {variants}, {}, {measured}, ""}, warned);
    CHECK(warned.empty());
    return rules;
  };
  constexpr const char* coarse = "ceil_div(ceil_div(rows, 64), multiprocessors)";
  constexpr const char* fine = "ceil_div(ceil_div(rows, 16), multiprocessors)";
  const auto problem = sample::problem({{"rows", 272}, {"columns", 1024}});

  const choice blind = rules_with("", "", "", 4)->select(problem);
  CHECK(blind.variant == 0);
  CHECK(blind.growth == 0);
  CHECK(blind.microseconds == Approx(10));

  // 20 us and 13 us; what has no cost grows like the row's fastest that has one, to 24 us.
  const auto seeing = rules_with(coarse, fine, "", 4);
  const choice seen = seeing->select(problem);
  CHECK(seen.variant == 1);
  CHECK(seen.why == reason::interpolated);
  CHECK(seen.growth == Approx(1.25));
  CHECK(seen.microseconds == Approx(13));
  CHECK_THAT(format_reason(explain(*seeing, problem, seen)),
             has_text("at distance 0.0875, its cost here 1.25 times the row's"));
  CHECK(explain(*seeing, problem, seen).candidates[0].microseconds == Approx(20));
  const choice exact = seeing->select(sample::problem({{"rows", 256}, {"columns", 1024}}));
  CHECK(exact.variant == 0);
  CHECK(exact.growth == 0);

  // What is known of the type and the device is put in, and variants whose cost is then the same share it.
  const auto alike = rules_with(coarse, "ceil_div(ceil_div(rows, 64), 2 * multiprocessors - 4)", fine, 4);
  const indexed_group& shared = alike->groups[0];
  std::set<std::uint32_t> costs;
  for (const named_candidates& list : shared.named) costs.insert(list.cost);
  CHECK(costs.size() == 2);
  for (const std::uint32_t cost : costs) CHECK_FALSE(shared.program.at(cost).reads_attributes());
  CHECK(alike->select(problem).growth == Approx(1.25));

  // A row's cost is that on the device it was measured on: 10 us, 10.4 * 3 / 4 us.
  const choice other = rules_with(coarse, fine, "", 8, "Card 91")->select(problem);
  CHECK(other.why == reason::other_device);
  CHECK(other.variant == 1);
  CHECK(other.growth == Approx(0.75));
  CHECK(other.microseconds == Approx(7.8));

  // One that has no cost wins where its time grows least by another's word.
  const choice borrowed = rules_with("", "", "rows", 4)->select(problem);
  CHECK(borrowed.variant == 0);
  CHECK(borrowed.growth == 0);
  CHECK(borrowed.microseconds == Approx(10 * 272.0 / 256));

  // What rows do not say, and what cannot be computed, is no cost.
  for (const char* none :
       {"rows * width", "rows / (columns - 1024)", "0", "-rows", "rows * rows * rows << 40"}) {
    INFO(none);
    const choice chosen = rules_with(none, none, none, 4)->select(problem);
    CHECK(chosen.variant == 0);
    CHECK(chosen.growth == 0);
    CHECK(chosen.microseconds == Approx(10));
  }
  CHECK(rules_with(coarse, fine, "", 0)->select(problem).variant == 0);
}

TEST_CASE("a cost may read what a group's rows were measured with") {
  constexpr std::uint32_t masked = 2;
  constexpr std::uint32_t width = 3;
  auto measured = empty_table({"tiles", "plain"});
  add_row(measured->groups[0], 256, 1024, {10.0F, 11.0F});
  const auto variants = std::make_shared<manifest>(*manifest_with({"tiles", "plain"}));
  std::size_t i = 0;
  for (const char* text : {"ceil_div(rows * width, 512)", "rows"}) {
    variants->variants[i++].cost = {text, expression::parse(text, detail::make_scope(sample::description()))};
  }
  const auto chosen_at = [&](std::int64_t columns, std::int64_t width_of_call,
                             std::vector<std::shared_ptr<const table>> tables) {
    std::vector<std::string> warned;
    const auto rules =
        build_selector({&sample::description(), card(), {variants}, {}, std::move(tables), ""}, warned);
    CHECK(warned.empty());
    return rules->select(sample::problem({{"rows", 260}, {"columns", columns}, {"width", width_of_call}}));
  };
  const auto chosen_with = [&](std::vector<measured_values> values, std::int64_t width_of_call) {
    measured->groups[0].measured_with = std::move(values);
    return chosen_at(1024, width_of_call, {measured});
  };
  // Nothing is known of the row's width: the first grows like the second.
  CHECK(chosen_with({}, 2).variant == 0);
  CHECK(chosen_with({{masked, {0, 1}}}, 2).variant == 0);
  // At a width of 2, the first needs a second tile. A call of another width is scaled as the row's.
  for (const std::int64_t width_of_call : {1, 2, 8}) {
    const choice chosen = chosen_with({{masked, {0, 1}}, {width, {2}}}, width_of_call);
    CHECK(chosen.variant == 1);
    CHECK(chosen.growth == Approx(260.0 / 256));
    CHECK(chosen.microseconds == Approx(11 * 260.0 / 256));
  }
  // The first of several widths counts, also for rows of another table.
  CHECK(chosen_with({{width, {1, 2}}}, 2).variant == 0);
  CHECK(chosen_with({{width, {1, 2}}}, 2).growth == Approx(1));
  CHECK(chosen_with({{width, {2, 3}}}, 1).variant == 1);
  auto more = std::make_shared<table>(*empty_table({"plain", "tiles"}));
  more->path = "more.json";
  more->groups[0].measured_with = {{width, {1}}};
  add_row(more->groups[0], 256, 8, {11.0F, 10.0F});
  CHECK(chosen_at(8, 1, {more}).variant == 0);
  CHECK(chosen_at(8, 1, {measured, more}).growth == Approx(260.0 / 256));
}

TEST_CASE("a variant that a row lacks counts as a little slower than the slowest there") {
  // Each of two rows, equally far, lacks the other's winner: what loses by less where it was measured wins.
  auto measured = empty_table({"a", "b", "both"});
  add_times(measured->groups[0], 16, 1024, {{0, 1.0F}, {2, 1.04F}});
  add_times(measured->groups[0], 64, 1024, {{1, 1.0F}, {2, 1.04F}});
  std::vector<std::string> warned;
  const auto rules = build_selector(
      {&sample::description(), card(), {manifest_with({"a", "b", "both"})}, {}, {measured}, ""}, warned);
  CHECK(rules->select(sample::problem({{"rows", 32}, {"columns", 1024}})).variant == 2);
}

TEST_CASE("a row that lists a very slow variant says no more against those that it lacks") {
  // Some kernel that serves anything takes 100 times as long. At the farther rows it makes `a` no worse.
  auto measured = empty_table({"a", "b", "any"});
  add_times(measured->groups[0], 64, 1024, {{0, 1.0F}, {1, 1.3F}, {2, 1.31F}});
  for (const std::int64_t rows : {2, 4, 8, 1024})
    add_times(measured->groups[0], rows, 1024, {{1, 1.0F}, {2, 100.0F}});
  std::vector<std::string> warned;
  const auto rules = build_selector(
      {&sample::description(), card(), {manifest_with({"a", "b", "any"})}, {}, {measured}, ""}, warned);
  CHECK(rules->select(sample::problem({{"rows", 90}, {"columns", 1024}})).variant == 0);
}

TEST_CASE("a row says nothing about a variant that could not serve it") {
  // `vector` needs columns that 8 divides. The nearest row has others; the farther ones were won by it.
  auto measured = empty_table({"vector", "scalar"});
  add_times(measured->groups[0], 64, 1023, {{1, 1.0F}});
  for (const std::int64_t columns : {512, 2048})
    add_times(measured->groups[0], 64, columns, {{0, 1.0F}, {1, 1.5F}});
  const auto chosen_with = [&measured](const char* requirement) {
    auto variants = std::make_shared<manifest>(*manifest_with({"vector", "scalar"}));
    const auto scope = detail::make_scope(sample::description());
    variants->variants[0].conditions.push_back({requirement, expression::parse(requirement, scope)});
    std::vector<std::string> warned;
    const auto rules =
        build_selector({&sample::description(), card(), {variants}, {}, {measured}, ""}, warned);
    return rules->select(sample::problem({{"rows", 64}, {"columns", 1024}}));
  };
  CHECK(chosen_with("columns % 8 == 0").variant == 0);
  CHECK(chosen_with("columns % 8 == 0").microseconds == Approx(1));
  // Where it could serve the row too, it was slower there, or the row would list it.
  CHECK(chosen_with("columns > 0").variant == 1);
  // What rows do not say is taken to hold: no row has a width.
  CHECK(chosen_with("columns % 8 == width - width").variant == 1);
  // A condition that cannot be computed at a row does not hold there.
  CHECK(chosen_with("8 / (columns - 1023) < 9").variant == 0);
}

TEST_CASE("a row that others could not serve decides less than its distance says") {
  // `any` alone serves 1023 columns, and wins there. Next to it, where `vector` serves too, farther rows say
  // more.
  auto measured = empty_table({"vector", "any"});
  add_times(measured->groups[0], 64, 1023, {{1, 1.0F}});
  for (const std::int64_t rows : {16, 256})
    add_times(measured->groups[0], rows, 1024, {{0, 1.0F}, {1, 3.0F}});
  auto variants = std::make_shared<manifest>(*manifest_with({"vector", "any"}));
  const char* text = "columns % 8 == 0";
  variants->variants[0].conditions.push_back(
      {text, expression::parse(text, detail::make_scope(sample::description()))});
  std::vector<std::string> warned;
  const auto rules = build_selector({&sample::description(), card(), {variants}, {}, {measured}, ""}, warned);
  CHECK(rules->select(sample::problem({{"rows", 64}, {"columns", 1024}})).variant == 0);
  CHECK(rules->select(sample::problem({{"rows", 65}, {"columns", 1023}})).variant == 1);
}

TEST_CASE("rows do not decide where a variant that could serve none of them states to be faster") {
  // Beyond 1,024 columns `wide` serves; the nearest rows have fewer. One far away lists it.
  auto measured = empty_table({"narrow", "any", "wide"});
  measured->match.neighbours = 2;
  for (const std::int64_t columns : {512, 1024})
    add_times(measured->groups[0], 64, columns, {{0, 1.0F}, {1, 9.0F}});
  add_times(measured->groups[0], 64, 1 << 20, {{2, 1.0F}, {1, 90.0F}});
  std::string note;
  const auto chosen_with = [&](const char* time_of_any, const char* time_of_wide) {
    const auto scope = detail::make_scope(sample::description());
    const std::vector<const char*> needs{"columns <= 1024", "columns > 0", "columns > 1024"};
    const std::vector<const char*> times{"1000", time_of_any, time_of_wide};
    auto variants = std::make_shared<manifest>(*manifest_with({"narrow", "any", "wide"}));
    for (std::size_t i = 0; i < 3; ++i) {
      variants->variants[i].conditions.push_back({needs[i], expression::parse(needs[i], scope)});
      if (*times[i] != '\0') variants->variants[i].cost_ns = {times[i], expression::parse(times[i], scope)};
    }
    std::vector<std::string> warned;
    const auto rules =
        build_selector({&sample::description(), card(), {variants}, {}, {measured}, ""}, warned);
    const auto problem = sample::problem({{"rows", 64}, {"columns", 2048}});
    const choice chosen = rules->select(problem);
    note = explain(*rules, problem, chosen, {}).note;
    return chosen;
  };
  const choice faster = chosen_with("9000", "2000");
  CHECK(faster.variant == 2);
  CHECK(faster.why == reason::heuristic);
  CHECK(note ==
        "no near row of group 0 of table.json could have 'wide', which states a lower time than what they "
        "prefer; least cost of the variants that serve it");
  CHECK(chosen_with("9000", "8200").variant == 1);  // not clearly
  CHECK(chosen_with("9000", "8200").why == reason::interpolated);
  CHECK(chosen_with("9000", "").variant == 1);
  CHECK(chosen_with("", "2000").variant == 1);
}

TEST_CASE("a cost that grows does not speak against variants that the row lacks") {
  // Carried to 640 rows, `grows` is 14 times as slow as `level`; in the row it was not, and `lacking` was no
  // slower.
  auto measured = empty_table({"grows", "level", "lacking"});
  add_times(measured->groups[0], 64, 1024, {{0, 10.0F}, {1, 11.0F}});
  add_times(measured->groups[0], 16384, 1024, {{2, 10.0F}, {1, 30.0F}});
  auto variants = std::make_shared<manifest>(*manifest_with({"grows", "level", "lacking"}));
  for (std::size_t i = 0; i < 3; ++i) {
    const char* text = i == 0 ? "rows" : "1024";
    variants->variants[i].cost = {text, expression::parse(text, detail::make_scope(sample::description()))};
  }
  std::vector<std::string> warned;
  const auto rules = build_selector({&sample::description(), card(), {variants}, {}, {measured}, ""}, warned);
  CHECK(rules->select(sample::problem({{"rows", 640}, {"columns", 1024}})).variant == 2);
}

TEST_CASE("without rows the least stated time decides, and no row's time is carried by it") {
  const auto timed = [](std::vector<const char*> times) {
    auto out = std::make_shared<manifest>(*manifest_with({"a", "b", "c"}));
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i] == nullptr) continue;
      out->variants[i].cost_ns = {times[i],
                                  expression::parse(times[i], detail::make_scope(sample::description()))};
    }
    return out;
  };
  const auto chosen = [](const std::shared_ptr<manifest>& variants, std::int64_t rows,
                         std::vector<std::shared_ptr<const table>> tables = {}) {
    std::vector<std::string> warned;
    const auto rules =
        build_selector({&sample::description(), card(), {variants}, {}, std::move(tables), ""}, warned);
    return rules->select(sample::problem({{"rows", rows}, {"columns", 1024}}));
  };
  const auto variants = timed({"1000 + 100 * rows", "3000", "4000"});
  CHECK(chosen(variants, 10).variant == 0);
  CHECK(chosen(variants, 10).why == reason::heuristic);
  CHECK(chosen(variants, 100).variant == 1);
  // What cannot be computed, or is no time, is last; a variant without a time has none to compare.
  CHECK(chosen(timed({"rows / (rows - 10)", "3000", nullptr}), 10).variant == 1);
  CHECK(chosen(timed({"rows - 10", "3000", nullptr}), 10).variant == 1);
  // The first of the manifest says whether times decide.
  CHECK(chosen(timed({nullptr, "1", "1"}), 10).variant == 0);
  // `cost` and `cost_us` say the same in microseconds.
  auto mixed = timed({nullptr, "3000", nullptr});
  mixed->variants[0].cost = {"rows", expression::parse("rows", detail::make_scope(sample::description()))};
  mixed->variants[0].cost_us = 0.1;
  CHECK(chosen(mixed, 29).variant == 0);
  CHECK(chosen(mixed, 31).variant == 1);
  // Carried to 96 rows, `a` would be slower than `b`.
  auto measured = empty_table({"a", "b"});
  add_times(measured->groups[0], 64, 1024, {{0, 10.0F}, {1, 11.0F}});
  CHECK(chosen(variants, 96, {measured}).variant == 0);
}

TEST_CASE("a selector outlives what it was built from") {
  std::shared_ptr<const selector> rules;
  {
    auto measured = empty_table({"a", "b"});
    add_row(measured->groups[0], 4, 4, {2.0F, 1.0F});
    selector_sources sources{&sample::description(), card(), {manifest_with({"a", "b"})}, {}, {measured}, ""};
    std::vector<std::string> warned;
    rules = build_selector(sources, warned);
  }
  const choice chosen = rules->select(sample::problem({{"rows", 4}, {"columns", 4}}));
  REQUIRE(chosen.variant == 1);
  CHECK(rules->candidates[chosen.variant].variant->id == "b");
}

TEST_CASE("ids that no manifest has are looked up in linear time, and few of them are named") {
  constexpr std::size_t count = 160'000;
  auto measured = empty_table({"a"});
  row_group& group = measured->groups[0];
  for (std::uint32_t i = 0; i < count; ++i) {
    group.ids.push_back("gone_" + std::to_string(i));
    add_times(group, i + 1, 64, {{0, 1.0F}, {i + 1, 2.0F}});
  }
  group.blobs.resize(group.ids.size());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> warned;
  const auto rules = build_selector(
      {&sample::description(), card(), {manifest_with({"a", "b"})}, {}, {measured}, ""}, warned);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{::test::sanitized ? 30 : 5});
  REQUIRE(warned.size() == 3);
  CHECK_THAT(warned[1], has_text("a row names variant 'gone_1', which no manifest of operator"));
  CHECK_THAT(warned[2], has_text("[switchyard.110] "));
  CHECK_THAT(warned[2], has_text(": names 159998 more variants that no manifest of operator"));
  const choice chosen = rules->select(sample::problem({{"rows", 777}, {"columns", 64}}));
  CHECK(chosen.why == reason::exact);
  CHECK(rules->candidates[chosen.variant].variant->id == "a");
}
