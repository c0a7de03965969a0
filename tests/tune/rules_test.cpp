// SPDX-License-Identifier: MIT
// The tuner's rules: what samples say, which problems come first, whose they are, how
// ties are settled, how rows get into a table, and what a check lets through.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/measuring/coverage.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/measuring/shard.hpp>
#include <switchyard/tune/measuring/statistics.hpp>
#include <switchyard/tune/tables/mean_times.hpp>
#include <switchyard/tune/tables/put_row.hpp>
#include <switchyard/tune/tables/ties.hpp>
#include <switchyard/tune/workload.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace sy = switchyard;
namespace tune = switchyard::tune;

namespace {

constexpr std::uint32_t rows_axis = 2;
constexpr std::uint32_t columns_axis = 3;

const sy::operator_description& softmax() {
  return sy::describe<sy::operators::softmax>();
}

sy::table empty_table() {
  sy::table out;
  out.match.axes.assign(softmax().axes.size(), sy::axis_rule{});
  return out;
}

void put(sy::table& into, std::int64_t rows, std::int64_t columns, const std::map<std::string, double>& times,
         double uncertainty = 0, std::size_t most = 8) {
  std::vector<tune::row_entry> entries;
  for (const auto& [id, time] : times) entries.push_back({id, time});
  const std::vector<std::int64_t> problem{0, 16, rows, columns};
  tune::put_row(into, softmax(), problem, {{0, 0}}, entries, uncertainty, most);
}

std::string first_at(const sy::table& of, std::int64_t rows, std::int64_t columns) {
  const sy::row_group& group = of.groups.at(0);
  const std::vector<std::int64_t> problem{0, 16, rows, columns};
  const std::size_t row = tune::find_row(group, problem);
  REQUIRE(row < group.row_count());
  return group.ids[group.row_times(row)[0].variant];
}

}  // namespace

TEST_CASE("a row of several kinds of calls has the mean times of its variants", "[tune]") {
  const auto mean = [](const std::vector<tune::kind_times>& kinds) {
    std::map<std::string, double> out;
    for (const tune::row_entry& entry : tune::mean_times(kinds)) out[entry.variant] = entry.microseconds;
    return out;
  };
  const auto near = [](double wanted) { return Approx(wanted).epsilon(1e-12); };
  CHECK(mean({}).empty());
  CHECK(mean({{{{"a", 3.0}, {"b", 7.0}}, 5}}).at("b") == near(7));
  const auto even = mean({{{{"a", 1.0}, {"b", 2.0}}, 1}, {{{"b", 8.0}, {"a", 64.0}}, 1}});
  CHECK(even.at("a") == near(8));
  CHECK(even.at("b") == near(4));
  const auto uneven = mean({{{{"a", 1.0}, {"b", 2.0}}, 3}, {{{"b", 8.0}, {"a", 64.0}}, 1}});
  CHECK(uneven.at("a") == near(std::pow(64, 0.25)));
  CHECK(uneven.at("b") == near(std::pow(64, 0.25)));
  // A variant that one kind lacks is not thought fast because that kind is short, or slow because it is long.
  const auto lacking = mean({{{{"a", 1.0}, {"b", 2.0}}, 1}, {{{"c", 300.0}, {"a", 100.0}}, 1}});
  CHECK(lacking.at("a") == near(10));
  CHECK(lacking.at("b") == near(20));
  CHECK(lacking.at("c") == near(30));
}

TEST_CASE("the median's interval holds the true median as often as it says") {
  CHECK(tune::summarise({}).samples == 0);
  const auto one = tune::summarise({3.0});
  CHECK(one.microseconds == 3.0);
  CHECK(one.uncertainty() == 1);  // one sample says nothing of how far it is off
  const auto six = tune::summarise({6, 1, 5, 2, 4, 3});
  CHECK(six.microseconds == 3.5);
  CHECK(six.low == 1);
  CHECK(six.high == 6);
  // 9 samples: the second smallest and largest leave out 2 * (1 + 9) / 512 = 3.9 %; the third ones 18 %.
  const auto nine = tune::summarise({9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(nine.low == 2);
  CHECK(nine.high == 8);

  std::mt19937 random{sy::test::fresh_seed()};
  std::lognormal_distribution<double> skewed{0.0, 0.5};  // its median is 1
  for (const int count : {6, 9, 20, 40}) {
    int held = 0;
    constexpr int trials = 4000;
    for (int i = 0; i < trials; ++i) {
      std::vector<double> samples;
      for (int n = 0; n < count; ++n) samples.push_back(skewed(random));
      const auto found = tune::summarise(samples);
      held += found.low <= 1 && 1 <= found.high ? 1 : 0;
    }
    INFO(count << " samples");
    CHECK(held > 0.94 * trials);
    CHECK(held < trials);
  }
}

TEST_CASE("problems come in the order in which they tell most") {
  std::vector<tune::coverage_point> line;
  for (int i = 0; i <= 16; ++i) line.push_back({0, {static_cast<double>(i)}, 1});
  auto order = tune::coverage_order(line);
  REQUIRE(std::set<std::size_t>(order.begin(), order.end()).size() == line.size());
  // The ends, the middle, then the quarters.
  CHECK(std::set<std::size_t>{order[0], order[1]} == std::set<std::size_t>{0, 16});
  CHECK(order[2] == 8);
  CHECK(std::set<std::size_t>{order[3], order[4]} == std::set<std::size_t>{4, 12});
  // What is called a thousand times as often comes first, and drags nothing along that lies beside it.
  line[5].weight = 1000;
  order = tune::coverage_order(line);
  CHECK(order[0] == 5);
  CHECK(order[1] == 16);
  // Each kind is represented before one is refined.
  std::vector<tune::coverage_point> kinds;
  for (std::size_t kind = 0; kind < 4; ++kind) {
    for (int i = 0; i < 8; ++i) kinds.push_back({kind, {static_cast<double>(i)}, 1});
  }
  order = tune::coverage_order(kinds);
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < 4; ++i) seen.insert(kinds[order[i]].kind);
  CHECK(seen.size() == 4);
}

TEST_CASE("shards follow the launcher, and are a partition") {
  std::map<std::string, std::string> set;
  const auto get = [&set](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  CHECK(tune::shard_of(get).count == 1);
  CHECK(tune::shard_of(get).file("a.json") == "a.json");
  set = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "5"}, {"SLURM_LOCALID", "1"}};
  CHECK(tune::shard_of(get).index == 2);
  CHECK(tune::shard_of(get).local == std::size_t{1});
  CHECK(tune::shard_of(get).file("tables/a.json") == "tables/a.shard-2-of-5.json");
  set["SLURM_STEP_NUM_TASKS"] = "4";  // of the step, where the job has more
  CHECK(tune::shard_of(get).count == 4);
  set["OMPI_COMM_WORLD_RANK"] = "7";
  CHECK(tune::shard_of(get).count == 4);  // half a pair says nothing
  set["OMPI_COMM_WORLD_SIZE"] = "8";
  CHECK(tune::shard_of(get).index == 7);
  set["RANK"] = "9";  // torchrun below mpirun
  set["WORLD_SIZE"] = "16";
  CHECK(tune::shard_of(get).index == 9);
  for (const char* const nonsense : {"", "x", "-1", "16", "1e1", "99999999999999999999"}) {
    set["RANK"] = nonsense;
    CHECK(tune::shard_of(get).index == 7);
  }
  for (const std::size_t count : {1U, 2U, 7U}) {
    std::vector<int> owners(100);
    for (std::size_t k = 0; k < count; ++k) {
      const tune::shard part{k, count, {}, {}};
      for (std::size_t i = 0; i < owners.size(); ++i) owners[i] += part.has(i) ? 1 : 0;
    }
    CHECK(std::all_of(owners.begin(), owners.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("rows are put, replaced and emptied") {
  sy::table table = empty_table();
  put(table, 4, 64, {{"a", 1}, {"b", 2}, {"c", 3}}, 0.25, 2);
  put(table, 8, 64, {{"c", 1}}, 0.5);
  REQUIRE(table.groups.size() == 1);
  const sy::row_group& group = table.groups[0];
  CHECK(group.axes == std::vector<std::uint32_t>{rows_axis, columns_axis});
  CHECK(group.row_times(0).size() == 2);
  CHECK(group.row_uncertainty(0) == 0.25);
  table.groups[0].blobs = {"x", "y", "z"};
  put(table, 4, 64, {{"c", 7}}, 0.125);
  REQUIRE(group.row_count() == 2);
  CHECK(first_at(table, 4, 64) == "c");
  CHECK(group.row_uncertainty(0) == 0.5);
  CHECK(group.row_uncertainty(1) == 0.125);
  CHECK(group.ids == std::vector<std::string>{"c"});  // no row names the others any more
  CHECK(group.blobs == std::vector<std::string>{"z"});
  put(table, 4, 64, {}, 0);
  CHECK(group.row_count() == 2);

  put(table, 16, 64, {{"c", 1}, {"d", 2}}, 0);
  CHECK(tune::remove_variant(table, "c", {{0, 1}}) == 0);  // of another type
  CHECK(tune::remove_variant(table, "c", {{0, 0}, {1, 16}}) == 3);
  REQUIRE(table.groups.size() == 1);
  CHECK(table.groups[0].row_count() == 1);
  CHECK(first_at(table, 16, 64) == "d");
  CHECK(tune::remove_variant(table, "d", {}) == 1);
  CHECK(table.groups.empty());
}

TEST_CASE("ties go to the variant that wins around them") {
  sy::table table = empty_table();
  for (const std::int64_t rows : {16, 32, 128, 256}) put(table, rows, 64, {{"a", 10}, {"b", 12}}, 0.01);
  put(table, 64, 64, {{"a", 10.1}, {"b", 10}}, 0.01);  // cannot be told apart
  CHECK(tune::settle_ties(table) == 1);
  CHECK(first_at(table, 64, 64) == "a");
  CHECK(tune::settle_ties(table) == 1);  // from the times alone: the same outcome again
  CHECK(first_at(table, 64, 64) == "a");
  put(table, 64, 64, {{"a", 10.3}, {"b", 10}}, 0.01);  // further apart than both may be off
  CHECK(tune::settle_ties(table) == 0);
  CHECK(first_at(table, 64, 64) == "b");
  put(table, 64, 64, {{"a", 10.1}, {"b", 10}}, 0);  // measured without doubt
  CHECK(tune::settle_ties(table) == 0);
  // Rows that an exact axis keeps apart have no say.
  put(table, 64, 64, {{"a", 10.1}, {"b", 10}}, 0.01);
  table.match.axes[rows_axis].metric = sy::axis_metric::exact;
  CHECK(tune::settle_ties(table) == 0);
}

TEST_CASE("what a row prefers and how far it may be off survive the file") {
  sy::table table = empty_table();
  table.device = {"host", "x86_64", "a device", {}};
  for (const std::int64_t rows : {16, 32, 128, 256}) put(table, rows, 64, {{"a", 10}, {"b", 12}}, 0.01);
  put(table, 64, 64, {{"a", 10.1}, {"b", 10}}, 0.0123);
  REQUIRE(tune::settle_ties(table) == 1);
  const std::string text = sy::format_table(softmax(), table, {});
  CHECK(text.find(
            R"({"at": [64, 64], "times_us": {"a": 10.1, "b": 10}, "first": "a", "uncertainty": 0.012})") !=
        std::string::npos);
  sy::warnings warned;
  const sy::table again = sy::parse_table(text, "t.json", softmax(), warned);
  CHECK(warned.messages.empty());
  CHECK(first_at(again, 64, 64) == "a");
  const sy::row_group& group = again.groups.at(0);
  const std::vector<std::int64_t> problem{0, 16, 64, 64};
  CHECK(group.row_uncertainty(tune::find_row(group, problem)) == Approx(0.012));
  CHECK(sy::format_table(softmax(), again, {}) == text);
  // What is wrong with either costs that row.
  const std::vector<std::pair<std::string, std::string>> slips{
      {R"("first": "a")", R"("first": "c")"},
      {R"("first": "a")", R"("first": 1)"},
      {R"("uncertainty": 0.012)", R"("uncertainty": 2)"},
      {R"("uncertainty": 0.012)", R"("uncertainty": "0.01")"},
      {R"("uncertainty": 0.012)", R"("uncertainty": -0.01)"}};
  for (const auto& [right, wrong] : slips) {
    std::string slipped = text;
    slipped.replace(slipped.find(right), right.size(), wrong);
    sy::warnings complaints;
    const sy::table rest = sy::parse_table(slipped, "t.json", softmax(), complaints);
    INFO(wrong);
    CHECK(complaints.messages.size() == 1);
    CHECK(rest.groups.at(0).row_count() == 4);
    CHECK(rest.groups.at(0).times.size() == 8);
  }
}

TEST_CASE("a sample of rows has the first and the last") {
  const tune::row_sample all{7, 10, 1};
  CHECK(all.all());
  CHECK(all.rows().size() == 7);
  const tune::row_sample some{1'000'000, 24, 1};
  CHECK_FALSE(some.all());
  CHECK(some.rows().size() > 20);
  CHECK(some.rows().size() <= 24);
  CHECK(some.has(0));
  CHECK(some.has(999'999));
  CHECK_FALSE((some.has(1) && some.has(2)));
  CHECK(std::is_sorted(some.rows().begin(), some.rows().end()));
}

/// Times a call that takes as long as it is told to: `microseconds(n)` for the n-th call, from 0.
tune::timed time_of_calls(const std::function<double(std::size_t)>& microseconds, double best) {
  const auto driver = std::make_shared<sy::host::driver>(1);
  std::size_t calls = 0;
  const auto call = [&] {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>{microseconds(calls++)};
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  return tune::time_call(driver, {}, call, best);
}

TEST_CASE("calls that are slow once, as on a busy machine, give a variant up for nothing") {
  constexpr double usual = 200;
  constexpr double outlier = 6000;
  const tune::timing_options options;
  // Call 0 loads the kernel, and is not timed. The next ones warm up.
  for (const std::size_t slow : {1U, 2U, 3U, 7U}) {
    INFO("call " << slow << " is slow");
    const auto found = time_of_calls([slow](std::size_t n) { return n == slow ? outlier : usual; }, usual);
    CHECK(found.samples >= options.samples);
  }
  // Even where all of the warm-up was: the sample shows it.
  const auto found = time_of_calls([](std::size_t n) { return n <= 3 ? outlier : usual; }, usual);
  CHECK(found.samples >= options.samples);
  // One in ten.
  CHECK(time_of_calls([](std::size_t n) { return n % 10 == 0 ? outlier : usual; }, usual).samples >=
        options.samples);
}

TEST_CASE("a variant that is slow whenever it is called gets one sample, which claims nothing") {
  const auto found = time_of_calls([](std::size_t) { return 3000.0; }, 100);
  CHECK(found.samples == 1);
  CHECK(found.uncertainty() == 1);
}

TEST_CASE("a judge sees what is wrong with a result, and nothing where all is right") {
  const auto driver = std::make_shared<sy::host::driver>(1);
  struct case_of {
    const char* name;
    const char* says;
    void (*spoil)(float* out, float* in, std::int64_t count);
  };
  constexpr std::int64_t count = 100'000;
  const std::vector<case_of> cases{
      {"right", "", [](float*, float*, std::int64_t) {}},
      {"one value off", "1 of", [](float* out, float*, std::int64_t n) { out[n - 1] += 1e-3F; }},
      {"one value missing", "is NaN where", [](float* out, float*, std::int64_t) { out[0] = NAN; }},
      {"infinite", "is infinity where", [](float* out, float*, std::int64_t) { out[7] = INFINITY; }},
      {"past the end", "writes past the end", [](float* out, float*, std::int64_t n) { out[n] = 1; }},
      {"far past the end", "252 bytes behind", [](float* out, float*, std::int64_t n) { out[n + 63] = 1; }},
      {"input", "changes an input", [](float*, float* in, std::int64_t n) { in[n / 2] = 3; }},
  };
  for (const case_of& fault : cases) {
    tune::tensors memory{driver, 5};
    auto* const in = static_cast<float*>(memory.random(sy::dtype::f32, count));
    auto* const out = static_cast<float*>(memory.poisoned(sy::dtype::f32, count));
    CHECK(std::isnan(out[0]));
    tune::host_copies copies{memory};
    tune::expectation wanted;
    auto& values = wanted.of("out", copies.translate(out), sy::dtype::f32);
    for (std::int64_t i = 0; i<count; i += i> 50 && i < count - 50 ? 7 : 1)
      values.want(i, 2 * static_cast<double>(in[i]), 1e-6);
    tune::judge judge{memory, std::move(copies), std::move(wanted)};
    for (int run = 0; run < 2; ++run) {
      judge.reset();
      INFO(fault.name << ", run " << run);
      CHECK(judge.verdict().find("is NaN where") != std::string::npos);  // nothing was written yet
      for (std::int64_t i = 0; i < count; ++i) out[i] = 2 * in[i];
      const float before = in[count / 2];
      fault.spoil(out, in, count);
      const std::string verdict = judge.verdict();
      CHECK(verdict.find(fault.says) != std::string::npos);
      CHECK(verdict.empty() == std::string{fault.says}.empty());
      in[count / 2] = before;
    }
  }
}
