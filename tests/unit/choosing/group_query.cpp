// SPDX-License-Identifier: MIT
// Predictions against the rule that group_query.hpp states, computed plainly: costs, rows that lack variants,
// variants that may not serve, metrics and quantities. Small enough tables that the index searches all rows.
#include <algorithm>
#include <atomic>
#include <catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/sha256.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_expression.hpp>

#include "environment.hpp"
#include "sample_tables.hpp"

namespace predictions {

using namespace switchyard;
using sample_tables::card;
using sample_tables::empty_table;

constexpr std::size_t variants = 9;

struct row {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::pair<std::uint32_t, double>> times;  // by variant, the fastest first
};

struct scene {
  std::vector<row> rows;
  axis_rule of_rows;
  axis_rule of_columns;
  bool has_area = false;  // the quantity rows * columns, logarithmic
  std::uint32_t neighbours = 8;
  double envelope = 1.5;
  std::vector<std::string> costs;  // by variant
  std::vector<std::string> needs;  // by variant, a condition; none beyond the last
  std::vector<std::string> times;  // by variant, what it states, in nanoseconds; none beyond the last
  std::vector<bool> usable;
  std::vector<bool> stale;
};

struct prediction {
  std::map<std::uint32_t, double> scores;
  double weights = 0;
  double best_logs = 0;
  const row* nearest = nullptr;
  double distance = 0;
  const row* exact = nullptr;
  bool weighs_stated = false;
};

/// Binary logarithm of a cost; negative: none.
double log_of_cost(const std::string& text, std::int64_t rows, std::int64_t columns) {
  double cost = 0;
  if (text == "rows") cost = static_cast<double>(rows);
  if (text == "rows * columns") cost = static_cast<double>(rows * columns);
  const std::int64_t tiles = (rows + 63) / 64 * columns;
  if (text == "ceil_div(rows, 64) * columns") cost = static_cast<double>(tiles);
  if (text == "rows - 40") cost = static_cast<double>(rows - 40);
  return cost >= 1 ? std::log2(cost) : -1;
}

/// In the selector's own arithmetic, so that rows that are equally near stay so.
float place_along(const axis_rule& rule, std::int64_t value) {
  switch (rule.metric) {
    case axis_metric::log:
      return __builtin_log2f(static_cast<float>(value)) / static_cast<float>(rule.unit);
    case axis_metric::linear:
      return static_cast<float>(static_cast<double>(value) / rule.unit);
    default:
      return 0;
  }
}

/// The time that a variant states, infinite where that is none; NaN: it states nothing.
double stated_time(const scene& all, std::uint32_t variant, std::int64_t rows, std::int64_t columns) {
  const std::string& text = variant < all.times.size() ? all.times[variant] : "";
  double time = std::nan("");
  if (text == "2000 + rows") time = static_cast<double>(2000 + rows);
  if (text == "500 + 10 * columns") time = static_cast<double>(500 + 10 * columns);
  if (text == "columns - 128") time = static_cast<double>(columns - 128);
  return time <= 0 ? std::numeric_limits<double>::infinity() : time;
}

bool holds(const scene& all, std::uint32_t variant, std::int64_t rows, std::int64_t columns) {
  const std::string& text = variant < all.needs.size() ? all.needs[variant] : "";
  if (text == "columns % 128 == 0") return columns % 128 == 0;
  if (text == "rows > 100") return rows > 100;
  return true;
}

bool may_serve(const scene& all, std::uint32_t variant, std::int64_t rows, std::int64_t columns) {
  return all.usable[variant] && holds(all, variant, rows, columns);
}

/// How the times of a row grow to a problem; by variant.
std::map<std::uint32_t, double> growth_of(const scene& all, const row& from, std::int64_t rows,
                                          std::int64_t columns, std::size_t most) {
  std::map<std::uint32_t, double> out;
  double others = 0;
  bool is_known = false;
  for (const auto& [variant, time] : from.times) {
    if (!may_serve(all, variant, rows, columns) || out.size() == most) continue;
    const double there = log_of_cost(all.costs[variant], from.rows, from.columns);
    const double here = log_of_cost(all.costs[variant], rows, columns);
    const bool has_both = there >= 0 && here >= 0;
    if (has_both && !is_known) others = here - there;
    is_known = is_known || has_both;
    out[variant] = has_both ? here - there : std::nan("");
  }
  for (auto& [variant, growth] : out) {
    if (std::isnan(growth)) growth = others;
  }
  return out;
}

/// What is used without rows, of the variants from the first that may serve.
std::uint32_t least_stated(const scene& all, std::uint32_t first, std::int64_t rows, std::int64_t columns) {
  std::uint32_t best = first;
  for (std::uint32_t v = first + 1; v < all.usable.size(); ++v) {
    if (may_serve(all, v, rows, columns) &&
        stated_time(all, v, rows, columns) < stated_time(all, best, rows, columns))
      best = v;
  }
  return best;
}

prediction predict_plainly(const scene& all, std::int64_t rows, std::int64_t columns) {
  prediction out;
  std::vector<std::pair<double, const row*>> near;
  for (const row& known : all.rows) {
    if (known.rows == rows && known.columns == columns) out.exact = &known;
    float squared = 0;
    const auto add = [&](const axis_rule& rule, std::int64_t there, std::int64_t here) {
      const float difference = place_along(rule, there) - place_along(rule, here);
      squared += difference * difference;
    };
    if (all.of_rows.metric == axis_metric::exact && known.rows != rows) continue;
    if (all.of_columns.metric == axis_metric::exact && known.columns != columns) continue;
    add(all.of_rows, known.rows, rows);
    add(all.of_columns, known.columns, columns);
    if (all.has_area) add({axis_metric::log, 1}, known.rows * known.columns, rows * columns);
    near.emplace_back(static_cast<double>(squared), &known);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(std::min<std::size_t>(near.size(), all.neighbours));
  struct counted {
    double squared;
    const row* from;
    std::map<std::uint32_t, double> logs;
    double spread;
  };
  std::vector<counted> rows_that_count;
  for (const auto& [squared, from] : near) {
    const auto growth = growth_of(all, *from, rows, columns, 8);
    if (growth.empty()) continue;
    if (out.nearest == nullptr) {
      out.nearest = from;
      out.distance = std::sqrt(squared);
    }
    counted added{squared, from, {}, 0};
    double fastest = 1e300;
    double slowest = 0;
    for (const auto& [variant, time] : from->times) {
      if (!growth.contains(variant)) continue;
      added.logs[variant] = std::log2(time) + growth.at(variant);
      out.scores[variant] = 0;
      fastest = std::min(fastest, time);
      slowest = std::max(slowest, time);
    }
    added.spread = std::log2(slowest / fastest);
    rows_that_count.push_back(std::move(added));
  }
  std::map<std::uint32_t, double> weights;  // of the rows that a variant could serve
  for (const auto& [squared, from, logs, spread] : rows_that_count) {
    bool is_of_another_kind = false;
    for (const auto& [variant, score] : out.scores)
      is_of_another_kind = is_of_another_kind || !holds(all, variant, from->rows, from->columns);
    const double distance = squared + 0.05 + (is_of_another_kind ? 0.25 : 0);
    const double weight = 1 / (distance * distance);
    double best = 1e300;
    for (const auto& [variant, log] : logs) best = std::min(best, log);
    for (auto& [variant, score] : out.scores) {
      const bool is_listed = logs.contains(variant);
      if (!is_listed && !holds(all, variant, from->rows, from->columns)) continue;
      score += weight * (is_listed ? logs.at(variant) - best : std::min(0.35, spread + 0.1));
      weights[variant] += weight;
    }
    out.weights += weight;
    out.best_logs += weight * best;
  }
  for (auto& [variant, score] : out.scores) score /= weights.at(variant);
  if (out.weights >= 10) return out;
  // Stated times count as one more row, where the others are far.
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [variant, score] : out.scores)
    shortest = std::fmin(shortest, stated_time(all, variant, rows, columns));
  for (auto& [variant, score] : out.scores) {
    const double stated = stated_time(all, variant, rows, columns);
    if (!std::isfinite(stated)) continue;
    score = (score * out.weights + std::log2(stated / shortest) * 0.15) / (out.weights + 0.15);
    out.weighs_stated = true;
  }
  return out;
}

struct built_scene {
  std::shared_ptr<const selector> rules;
  std::vector<std::atomic<bool>> unusable;
};

built_scene build_scene(const scene& all) {
  auto made = std::make_shared<manifest>();
  made->path = "manifest.json";
  made->target = {"cuda", "sm_90a"};
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < all.costs.size(); ++i) {
    variant added;
    added.id = "v" + std::to_string(i);
    added.launches.resize(1);
    added.launches[0].sha256 = std::string(64, 'a');
    if (!all.costs[i].empty()) {
      added.cost = {all.costs[i], expression::parse(all.costs[i], detail::make_scope(sample::description()))};
    }
    if (i < all.times.size() && !all.times[i].empty()) {
      added.cost_ns = {all.times[i],
                       expression::parse(all.times[i], detail::make_scope(sample::description()))};
    }
    if (i < all.needs.size() && !all.needs[i].empty()) {
      added.conditions.push_back(
          {all.needs[i], expression::parse(all.needs[i], detail::make_scope(sample::description()))});
    }
    ids.push_back(added.id);
    made->variants.push_back(std::move(added));
  }
  auto measured = empty_table(ids);
  measured->match.axes[5] = all.of_rows;
  measured->match.axes[6] = all.of_columns;
  measured->match.neighbours = all.neighbours;
  measured->match.envelope = all.envelope;
  if (all.has_area) {
    measured->match.features.push_back(
        {"rows * columns",
         expression::parse("rows * columns", detail::make_scope(sample::description())),
         {axis_metric::log, 1}});
  }
  row_group& group = measured->groups[0];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % 3 != 2) group.blobs[i] = std::string(16, all.stale[i] ? 'b' : 'a');
  }
  for (const row& known : all.rows) {
    std::vector<measured_time> times;
    for (const auto& [variant, time] : known.times) times.push_back({variant, static_cast<float>(time)});
    sample_tables::add_times(group, known.rows, known.columns, times);
  }
  std::vector<std::string> warned;
  built_scene out{build_selector({&sample::description(), card(), {made}, {}, {measured}, ""}, warned),
                  std::vector<std::atomic<bool>>(ids.size())};
  REQUIRE(warned.empty());
  for (std::size_t i = 0; i < ids.size(); ++i) out.unusable[i] = !all.usable[i];
  return out;
}

scene random_scene(std::mt19937& random) {
  const auto below = [&random](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const auto rule = [&]() -> axis_rule {
    switch (below(6)) {
      case 0:
        return {axis_metric::linear, 100.0 * static_cast<double>(1 + below(3))};
      case 1:
        return {axis_metric::exact, 1};
      case 2:
        return {axis_metric::ignore, 1};
      case 3:
        return {axis_metric::log, 0.5};
      default:
        return {axis_metric::log, 1};
    }
  };
  scene out;
  out.of_rows = rule();
  out.of_columns = rule();
  out.has_area = below(2) == 0;
  out.neighbours = static_cast<std::uint32_t>(1 + below(12));
  out.envelope = 0.5 * static_cast<double>(below(5));
  // Not with conditions: the rows do not decide where a variant that none of them could have states less.
  const bool states_times = below(2) == 0;
  for (std::size_t i = 0; i < variants; ++i) {
    constexpr std::array<const char*, 4> times{"", "2000 + rows", "500 + 10 * columns", "columns - 128"};
    if (states_times) out.times.emplace_back(times.at(below(times.size())));
    constexpr std::array<const char*, 8> costs{
        "", "", "rows", "rows", "rows * columns", "ceil_div(rows, 64) * columns", "rows - 40", "0"};
    out.costs.emplace_back(costs.at(below(costs.size())));
    constexpr std::array<const char*, 5> needs{"", "", "", "columns % 128 == 0", "rows > 100"};
    out.needs.emplace_back(states_times ? "" : needs.at(below(needs.size())));
    out.usable.push_back(below(6) != 0);
    out.stale.push_back(i % 3 != 2 && below(3) == 0);
  }
  for (std::size_t i = 0, count = 1 + below(below(3) == 0 ? 90 : 24); i < count; ++i) {  // of several leaves
    row made;
    made.rows = static_cast<std::int64_t>(1 + below(300));
    made.columns = static_cast<std::int64_t>(1 + below(4)) * 64;
    const auto is_same = [&](const row& other) {
      return other.rows == made.rows && other.columns == made.columns;
    };
    if (std::any_of(out.rows.begin(), out.rows.end(), is_same)) continue;
    for (std::uint32_t v = 0; v < variants; ++v) {
      if (below(3) != 0) made.times.emplace_back(v, 1 + static_cast<double>(below(1'000'000)) / 3e5);
    }
    if (made.times.empty()) continue;
    std::sort(made.times.begin(), made.times.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    out.rows.push_back(std::move(made));
  }
  return out;
}

TEST_CASE("a prediction is what the rule gives, with costs, gaps, metrics and variants out of use") {
  std::mt19937 random{switchyard::test::seed_or(21)};
  std::array<int, 8> reasons{};
  int growing = 0;
  int weighing = 0;
  for (int round = 0; round < 300; ++round) {
    const scene all = random_scene(random);
    if (all.rows.empty()) continue;
    const built_scene made = build_scene(all);
    for (int query = 0; query < 12; ++query) {
      auto rows = static_cast<std::int64_t>(1 + random() % 400);
      auto columns = static_cast<std::int64_t>(1 + random() % 5) * 64;
      if (query % 4 == 0) {  // on a row
        rows = all.rows[random() % all.rows.size()].rows;
        columns = all.rows[random() % all.rows.size()].columns;
      }
      INFO("round " << round << ", rows " << rows << ", columns " << columns);
      const auto problem = sample::problem({{"rows", rows}, {"columns", columns}});
      const choice chosen = made.rules->select(problem, made.unusable);
      ++reasons[static_cast<std::size_t>(chosen.why)];
      const prediction wanted = predict_plainly(all, rows, columns);
      if (wanted.exact != nullptr) {
        const auto first =
            std::find_if(wanted.exact->times.begin(), wanted.exact->times.end(),
                         [&](const auto& time) { return may_serve(all, time.first, rows, columns); });
        if (first != wanted.exact->times.end()) {
          REQUIRE(chosen.why == reason::exact);
          REQUIRE(chosen.variant == first->first);
          REQUIRE(chosen.microseconds == static_cast<float>(first->second));
          REQUIRE(chosen.stale == all.stale[chosen.variant]);
          REQUIRE(chosen.row == static_cast<std::uint32_t>(wanted.exact - all.rows.data()));
          REQUIRE(chosen.distance == 0);
          REQUIRE(chosen.growth == 0);
          continue;
        }
      }
      if (wanted.nearest == nullptr) {  // the first that may serve, if any, or what states the least time
        std::uint32_t first = 0;
        while (first < variants && !may_serve(all, first, rows, columns)) ++first;
        REQUIRE(chosen.why == (first == variants ? reason::none : reason::heuristic));
        if (first != variants) REQUIRE(chosen.variant == least_stated(all, first, rows, columns));
        REQUIRE(chosen.row == no_index);
        continue;
      }
      REQUIRE(wanted.scores.contains(chosen.variant));
      double least = 1e300;
      for (const auto& [variant, score] : wanted.scores) least = std::min(least, score);
      const double score = wanted.scores.at(chosen.variant);
      REQUIRE(score - least <= 1e-3);  // the same, or as good within float arithmetic
      const row& nearest = all.rows[chosen.row];
      // Of rows that are equally near within float arithmetic either may be the nearest.
      REQUIRE(static_cast<double>(chosen.distance) == Approx(wanted.distance).epsilon(1e-3).margin(2e-3));
      if (std::abs(wanted.distance - all.envelope) > 1e-2) {
        REQUIRE(chosen.why ==
                (wanted.distance <= all.envelope ? reason::interpolated : reason::extrapolated));
      }
      REQUIRE(static_cast<double>(chosen.microseconds) ==
              Approx(std::exp2(wanted.best_logs / wanted.weights + score)).epsilon(2e-2));
      REQUIRE(chosen.stale == all.stale[chosen.variant]);
      const auto is_chosen = [&](const auto& time) { return time.first == chosen.variant; };
      const double there = log_of_cost(all.costs[chosen.variant], nearest.rows, nearest.columns);
      const double here = log_of_cost(all.costs[chosen.variant], rows, columns);
      const bool has_growth =
          there >= 0 && here >= 0 && std::any_of(nearest.times.begin(), nearest.times.end(), is_chosen);
      REQUIRE(static_cast<double>(chosen.growth) ==
              Approx(has_growth ? std::exp2(here - there) : 0).epsilon(1e-3));
      if (has_growth && here != there) ++growing;
      // What is shown of the others is their time in the nearest row, carried to the problem.
      const explanation why = explain(*made.rules, problem, chosen, made.unusable);
      REQUIRE(why.weighs_stated == wanted.weighs_stated);
      if (why.weighs_stated) ++weighing;
      const auto growth = growth_of(all, nearest, rows, columns, 8);
      for (const auto& [variant, time] : nearest.times) {
        if (!growth.contains(variant)) continue;
        REQUIRE(why.candidates[variant].microseconds ==
                Approx(time * std::exp2(growth.at(variant))).epsilon(1e-3));
      }
    }
  }
  CHECK(reasons[static_cast<std::size_t>(reason::exact)] > 100);
  CHECK(reasons[static_cast<std::size_t>(reason::interpolated)] > 100);
  CHECK(reasons[static_cast<std::size_t>(reason::extrapolated)] > 100);
  CHECK(reasons[static_cast<std::size_t>(reason::heuristic)] > 100);
  CHECK(growing > 100);
  CHECK(weighing > 100);
}

TEST_CASE("what variants state counts like a row at 1.6, where all rows are farther than half an octave") {
  scene all;
  all.costs = {"", ""};
  all.usable = {true, true};
  all.stale = {false, false};
  all.rows.push_back(
      {64, 64, {{0, 10.0}, {1, 12.0}}});  // the second is slower, and states a sixth of the time
  all.times = {"500 + 10 * columns", "columns - 128"};
  const auto chosen_at = [&all](std::int64_t rows) {
    const auto problem = sample::problem({{"rows", rows}, {"columns", 320}});
    all.of_columns = {axis_metric::ignore, 1};
    const built_scene made = build_scene(all);
    const choice chosen = made.rules->select(problem);
    return std::pair{chosen.variant, to_string(explain(*made.rules, problem, chosen))};
  };
  const std::string said = "; stated times count as one more row";
  CHECK(chosen_at(256).first == 1);  // weighs 0.06
  CHECK(chosen_at(256).second.find(said) != std::string::npos);
  CHECK(chosen_at(100).first == 0);  // 4.5
  CHECK(chosen_at(100).second.find(said) != std::string::npos);
  CHECK(chosen_at(80).first == 0);  // 42
  CHECK(chosen_at(80).second.find(said) == std::string::npos);
  all.times = {"", ""};
  CHECK(chosen_at(256).first == 0);
  CHECK(chosen_at(256).second.find(said) == std::string::npos);
}

TEST_CASE("eight times of a row count, of those that may serve, and sixty-four are read") {
  scene all;
  all.rows.push_back({64, 64, {}});
  constexpr std::uint32_t count = 70;
  for (std::uint32_t v = 0; v < count; ++v) {
    all.costs.emplace_back(v == 7 ? "rows" : v == 8 ? "rows * columns" : "");
    all.usable.push_back(true);
    all.stale.push_back(false);
    all.rows[0].times.emplace_back(v, 1.0 + v);
  }
  const auto problem = sample::problem({{"rows", 128}, {"columns", 128}});
  // The eighth has the first cost, so all grow like it, to the double; the ninth is not read.
  CHECK(build_scene(all).rules->select(problem).microseconds == Approx(2));
  all.costs[7] = "";
  CHECK(build_scene(all).rules->select(problem).microseconds == Approx(1));
  // One that may not serve is passed over, and the ninth counts.
  all.usable[2] = false;
  built_scene made = build_scene(all);
  CHECK(made.rules->select(problem, made.unusable).microseconds == Approx(4));

  // The sixty-fourth is found behind others that may not serve; the sixty-fifth is not.
  all.usable.assign(count, false);
  all.usable[63] = true;
  made = build_scene(all);
  CHECK(made.rules->select(problem, made.unusable).variant == 63);
  CHECK(made.rules->select(problem, made.unusable).why == reason::interpolated);
  all.usable[63] = false;
  all.usable[64] = true;
  made = build_scene(all);
  CHECK(made.rules->select(problem, made.unusable).variant == 64);
  CHECK(made.rules->select(problem, made.unusable).why == reason::heuristic);
}

TEST_CASE("a prediction weighs at most sixty-four variants, the first that its rows name") {
  scene all;
  all.neighbours = 32;
  all.of_rows = {axis_metric::linear, 1};
  all.costs.assign(70, "");
  all.usable.assign(70, true);
  all.stale.assign(70, false);
  // Eleven rows of six variants each, farther and farther from 100: the eleventh makes 64 full.
  for (std::uint32_t r = 0; r < 11; ++r) {
    row added{101 + r, 64, {}};
    for (std::uint32_t v = 0; v < 6; ++v) added.times.emplace_back(6 * r + v, 5.0 + v);
    all.rows.push_back(added);
  }
  built_scene made = build_scene(all);
  const auto problem = sample::problem({{"rows", 100}, {"columns", 64}});
  const auto only = [&](std::uint32_t variant) {
    for (std::uint32_t v = 0; v < 70; ++v) made.unusable[v] = v != variant;
    return made.rules->select(problem, made.unusable).why;
  };
  CHECK(only(0) == reason::interpolated);
  CHECK(only(63) == reason::extrapolated);
  CHECK(only(64) == reason::heuristic);
  CHECK(only(65) == reason::heuristic);
}

TEST_CASE("a distance that equals the envelope is within it, and of equal scores the first one wins") {
  scene all;
  all.costs.assign(3, "");
  all.usable.assign(3, true);
  all.stale.assign(3, false);
  all.rows.push_back({64, 64, {{2, 1.0}, {1, 1.0}, {0, 3.0}}});
  all.envelope = 1;
  CHECK(build_scene(all).rules->select(sample::problem({{"rows", 128}, {"columns", 64}})).why ==
        reason::interpolated);
  CHECK(build_scene(all).rules->select(sample::problem({{"rows", 129}, {"columns", 64}})).why ==
        reason::extrapolated);
  CHECK(build_scene(all).rules->select(sample::problem({{"rows", 128}, {"columns", 64}})).variant == 2);
}

TEST_CASE("of more equally near rows than count, the first of the file decide") {
  scene all;
  all.costs.assign(3, "");
  all.usable.assign(3, true);
  all.stale.assign(3, false);
  all.neighbours = 2;
  // All are at distance 1 of 64 x 64.
  const std::vector<row> first{{32, 64, {{1, 1.0}, {2, 3.0}}}, {128, 64, {{1, 1.0}, {2, 3.0}}}};
  const std::vector<row> last{{64, 32, {{2, 1.0}, {1, 3.0}}}, {64, 128, {{2, 1.0}, {1, 3.0}}}};
  const auto chosen = [&](const std::vector<row>& a, const std::vector<row>& b) {
    all.rows = a;
    all.rows.insert(all.rows.end(), b.begin(), b.end());
    return build_scene(all).rules->select(sample::problem({{"rows", 64}, {"columns", 64}})).variant;
  };
  CHECK(chosen(first, last) == 1);
  CHECK(chosen(last, first) == 2);
}

TEST_CASE("costs of one, of a half and of a fault: only what is at least one is a cost") {
  using namespace switchyard;
  CHECK(log_cost({1, fault::none}) == 0);
  CHECK(log_cost({8, fault::none}) == 3);
  CHECK(log_cost({0, fault::none}) == -1);
  CHECK(log_cost({-8, fault::none}) == -1);
  CHECK(log_cost({8, fault::overflow}) == -1);
  // A cost of one is a cost: its logarithm is 0.
  row_growth growth;
  growth.add({0, 1, 0, 0}, 0);
  growth.add({0, 1, 0, 1}, 5);  // the first one decides for others
  CHECK(growth.of({0, 1, 0, -1}, -1) == 0);
  CHECK(growth.of({0, 1, 0, 0}, 3) == 3);
  CHECK(growth.of({0, 1, 0, 2}, 0) == -2);
  row_growth later;
  later.add({0, 1, 0, -1}, 3);
  later.add({0, 1, 0, 1}, -1);
  later.add({0, 1, 0, 1}, 3);
  CHECK(later.of({0, 1, 0, -1}, 3) == 2);
  CHECK(later.of({0, 1, 0, 1}, -1) == 2);
}

TEST_CASE("a linear axis ends far out, on either side, and a logarithmic one begins at one") {
  using namespace switchyard;
  metric_dimension along;
  along.axis = 0;
  const auto place_along = [&](std::int64_t value) {
    const std::vector<std::int64_t> problem{value};
    const joint_program nothing;
    joint_program::values computed{nothing, problem};
    float out = -7;
    REQUIRE(along.place(problem, computed, out));
    return out;
  };
  along.rule = {axis_metric::linear, 4};
  CHECK(place_along(10) == 2.5F);
  CHECK(place_along(-10) == -2.5F);
  CHECK(place_along(std::int64_t{1} << 40) == metric_dimension::linear_end);
  CHECK(place_along(-(std::int64_t{1} << 40)) == -metric_dimension::linear_end);
  CHECK(place_along(std::int64_t{1} << 29) == 0x1p27F);
  CHECK(place_along(-(std::int64_t{1} << 29)) == -0x1p27F);
  along.rule = {axis_metric::log, 2};
  CHECK(place_along(16) == 2);
  CHECK(place_along(1) == 0);
  CHECK(place_along(0) == 0);
  CHECK(place_along(-5) == 0);
  CHECK(place_along(2) == 0.5F);
  along.rule = {axis_metric::ignore, 1};
  CHECK(place_along(16) == 0);
  along.rule = {axis_metric::exact, 1};
  along.levels = {2, 3, 5, 8};
  for (std::size_t i = 0; i < along.levels.size(); ++i)
    CHECK(place_along(along.levels[i]) == static_cast<float>(i) * 0x1p32F);
  for (const std::int64_t none : {-1, 0, 1, 4, 6, 7, 9}) {
    const std::vector<std::int64_t> problem{none};
    const joint_program nothing;
    joint_program::values computed{nothing, problem};
    float out = 0;
    CHECK_FALSE(along.place(problem, computed, out));
  }
}

TEST_CASE("a row of another value on an exact axis never counts, however near it is otherwise") {
  scene all;
  all.costs.assign(2, "");
  all.usable.assign(2, true);
  all.stale.assign(2, false);
  all.of_columns = {axis_metric::exact, 1};
  // Two values side by side: the second variant is measured at the other one alone.
  all.rows.push_back({64, 64, {{0, 9.0}}});
  all.rows.push_back({64, 65, {{1, 1.0}}});
  const choice chosen =
      build_scene(all).rules->select(sample::problem({{"rows", 1'000'000}, {"columns", 64}}));
  CHECK(chosen.variant == 0);
  CHECK(chosen.microseconds == Approx(9));
  CHECK(chosen.why == reason::extrapolated);
  all.usable[0] = false;
  const built_scene made = build_scene(all);
  CHECK(made.rules->select(sample::problem({{"rows", 64}, {"columns", 64}}), made.unusable).why ==
        reason::heuristic);
}

}  // namespace predictions
