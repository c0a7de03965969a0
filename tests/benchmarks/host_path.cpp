// SPDX-License-Identifier: MIT
// The cost of choosing and launching on the host, without the kernels: they do nothing here.
//
//   host_path                 measures everything; one line a figure: name, value, unit
//   host_path count WHAT N    makes N calls of WHAT, for an instruction counter (see host_path.py)
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/switchyard.hpp>

#include "../dispatch/allocation_counter.hpp"
#include "../dispatch/test_disk.hpp"
#include "../dispatch/test_operators.hpp"

namespace {

using namespace test;
using sy::operators::attention_forward;
using sy::operators::rotary;

std::int64_t now() {
  ::timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

/// Processor time of this thread: for what takes longer than the scheduler leaves it alone.
std::int64_t processor_now() {
  ::timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

double at_quantile(std::vector<double> values, double which) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(which * static_cast<double>(values.size() - 1))];
}

void print(std::string_view name, double value, std::string_view unit) {
  std::printf("%.*s\t%.4g\t%.*s\n", static_cast<int>(name.size()), name.data(), value,
              static_cast<int>(unit.size()), unit.data());
  std::fflush(stdout);
}

/// A pseudo-random sequence, the same in every run.
class draw {
 public:
  draw() = default;
  explicit draw(std::uint64_t seed) noexcept : state_{seed * 0xd1342543de82ef95U} {}
  std::uint64_t operator()() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// As sizes are: equally likely in each power of two up to 2^bits.
  std::int64_t size(unsigned bits) noexcept {
    return static_cast<std::int64_t>(std::exp2(static_cast<double>((*this)() >> 11U) * 0x1p-53 * bits));
  }

 private:
  std::uint64_t state_ = 1;
};

// 1. Warm launches

/// An operator whose kernel does nothing, called with one problem, and the same launch without the
/// dispatcher.
template <class Operator>
class warm {
 public:
  warm(const disk& files, const char* kernel, typename Operator::arguments call)
      : call_{call}, driver_{std::make_shared<sy::host::driver>(1)}, catalog_{files.options()} {
    on_ = std::make_unique<sy::dispatcher<Operator>>(catalog_, sy::device{driver_});
    blob_ = read_text(disk::built("nothing.so"));
    function_ = driver_->find(driver_->load(std::as_bytes(std::span{blob_}), "nothing.so"), kernel);
    const auto& op = sy::describe<Operator>();
    for (const auto& field : op.fields)
      pointers_.push_back(reinterpret_cast<std::byte*>(&call_) + field.offset);
    dispatched(1);
  }

  [[gnu::noinline]] void dispatched(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      keep();
      (*on_)(nullptr, call_);
    }
  }
  [[gnu::noinline]] void bare(std::int64_t count) {
    sy::device_driver& driver = *driver_;
    for (std::int64_t i = 0; i < count; ++i) {
      keep();
      if (driver.launch(function_, geometry_, pointers_.data(), nullptr) != 0) std::abort();
    }
  }
  [[gnu::noinline]] void empty(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) keep();
  }

  void measure(const std::string& name) {
    constexpr std::int64_t calls = 2000;
    constexpr int batches = 400;
    std::vector<double> difference;
    std::vector<double> bare_time;
    for (int batch = 0; batch < batches; ++batch) {
      const std::int64_t begin = now();
      dispatched(calls);
      const std::int64_t middle = now();
      bare(calls);
      const std::int64_t end = now();
      difference.push_back(static_cast<double>((middle - begin) - (end - middle)) / calls);
      bare_time.push_back(static_cast<double>(end - middle) / calls);
    }
    const std::uint64_t before = allocations_of_this_thread();
    dispatched(calls);
    const std::uint64_t made = allocations_of_this_thread() - before;
    print(name + " over bare, median", at_quantile(difference, 0.5), "ns");
    print(name + " over bare, fastest tenth", at_quantile(difference, 0.1), "ns");
    print(name + " bare, median", at_quantile(bare_time, 0.5), "ns");
    print(name + " allocations", static_cast<double>(made) / calls, "a call");
  }

 private:
  /// The compiler must take the arguments for changed.
  void keep() { asm volatile("" : : "r"(&call_) : "memory"); }

  typename Operator::arguments call_;
  std::shared_ptr<sy::host::driver> driver_;
  sy::catalog catalog_;
  std::unique_ptr<sy::dispatcher<Operator>> on_;
  std::string blob_;
  sy::function_handle function_ = nullptr;
  sy::launch_geometry geometry_;
  std::vector<void*> pointers_;
};

template <class Operator>
json take_all(const char* kernel) {
  json names = json::array();
  for (const auto& field : sy::describe<Operator>().fields) names.push_back(field.name);
  return {{"id", "all"}, {"launches", {{{"blob", "nothing.so"}, {"kernel", kernel}, {"parameters", names}}}}};
}

rotary::arguments rotary_call(void* memory) {
  const auto type = sy::dtype::bf16;
  const sy::tensor q{memory, type, {1, 1, 32, 128}};
  const sy::tensor k{memory, type, {1, 1, 8, 128}};
  const sy::const_tensor table{memory, sy::dtype::f32, {4096, 64}};
  return rotary::in_place(q, k, {.cos = table, .sin = table, .offset = 2048});
}

attention_forward::arguments attention_call(void* memory, sy::dtype type) {
  const sy::tensor q{memory, type, {1, 1, 32, 128}};
  const sy::tensor k{memory, type, {1, 2048, 8, 128}};
  return attention_forward::call(q, k, k, q);
}

alignas(16) std::array<std::byte, 64> some_memory{};

template <class Visitor>
void visit_warm(std::string_view which, const Visitor& visit) {
  const disk files;
  if (which == "sixteen") {
    files.put_manifest("nothing", {nothing_variant("all")});
    visit(warm<nothing>{files, "nothing_16", nothing::call()}, "warm launch, 16 parameters");
  } else if (which == "rotary") {
    files.put_manifest("rotary", {take_all<rotary>("nothing_rotary")});
    visit(warm<rotary>{files, "nothing_rotary", rotary_call(some_memory.data())},
          "warm launch, all of rotary");
  } else if (which == "attention") {
    files.put_manifest("attention_forward", {take_all<attention_forward>("nothing_attention_forward")});
    visit(warm<attention_forward>{files, "nothing_attention_forward",
                                  attention_call(some_memory.data(), sy::dtype::bf16)},
          "warm launch, all of attention_forward");
  } else {
    throw std::invalid_argument{"unknown: " + std::string{which}};
  }
}

// 2. First choices

/// Rows over the four sizes of `nothing`, at which six variants were measured.
json make_rows(std::size_t count, draw& random, std::size_t variants = 6) {
  json rows = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    json times;
    for (std::size_t v = 0; v < 4; ++v) {
      times["v" + std::to_string((i + v * 7) % variants)] = 1.0 + static_cast<double>(random() % 10000) / 100;
    }
    rows.push_back(
        {{"at", {random.size(8), random.size(7), random.size(15), random.size(17)}}, {"times_us", times}});
  }
  return rows;
}

json make_group(json rows) {
  return {{"type", {{"dtype", "f16"}, {"head_dim", 128}}},
          {"axes", {"batch", "heads", "seqlen_q", "seqlen_k"}},
          {"rows", std::move(rows)}};
}

std::vector<json> make_variants(std::size_t count) {
  std::vector<json> out;
  for (std::size_t i = 0; i < count; ++i) {
    json variant = nothing_variant("v" + std::to_string(i));
    variant["type"] = {{"dtype", "f16"}};
    variant["config"] = {{"block_m", 64 << i % 3}, {"block_n", 32 << i % 4}};
    variant["requires"] = {"seqlen_k <= 1 << 30", "head_dim % 8 == 0"};
    out.push_back(std::move(variant));
  }
  return out;
}

/// The longest cost of the kernels that come along: that of attention's tiles under a mask.
constexpr const char* tile_cost =
    "mask == none ? ceil_div(ceil_div(seqlen_q, block_m) * heads * batch, multiprocessors) * "
    "round_up(seqlen_k, block_n) + 512 : ceil_div(seqlen_q, block_m) * heads * batch * (min(seqlen_k, "
    "seqlen_k "
    "- (min(seqlen_q, seqlen_k) - block_m) / 2) + block_n / 2) / multiprocessors + seqlen_k + 512";

/// New problems of an operator whose table has 10,000 rows.
template <class Operator>
class first_choice {
 public:
  /// Draws the sizes of a call.
  using change_sizes = void (*)(typename Operator::arguments&, draw&);

  first_choice(const disk& files, typename Operator::arguments call, change_sizes change)
      : call_{call},
        change_{change},
        driver_{std::make_shared<sy::host::driver>(1)},
        catalog_{files.options()} {
    rules_ = catalog_.make_selector(sy::describe<Operator>(), driver_->properties());
  }

  [[gnu::noinline]] void choose(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      change_(call_, random_);
      if (rules_->select(sy::make_problem<Operator>(call_)).variant == sy::no_index) std::abort();
    }
  }
  [[gnu::noinline]] void draw_only(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      change_(call_, random_);
      if (sy::make_problem<Operator>(call_)[0] < 0) std::abort();
    }
  }

  void measure(const std::string& name, std::initializer_list<sy::axis_span> sizes) {
    sy::dispatcher<Operator> on{catalog_, sy::device{driver_}};
    on.prepare(call_, sizes);
    constexpr int problems = 50'000;
    constexpr int first_steady = problems / 2;  // the plans of the first ones only fill the cache
    std::vector<double> times;
    std::vector<double> pure;
    std::uint64_t allocations = 0;
    times.reserve(problems);
    pure.reserve(problems);
    for (int i = 0; i < problems; ++i) {
      change_(call_, random_);
      if (i == first_steady) allocations = allocations_of_this_thread();
      const std::int64_t begin = now();
      on(nullptr, call_);
      const std::int64_t middle = now();
      const auto chosen = rules_->select(sy::make_problem<Operator>(call_));
      const std::int64_t end = now();
      if (chosen.variant == sy::no_index) std::abort();
      times.push_back(static_cast<double>(middle - begin) / 1000);
      pure.push_back(static_cast<double>(end - middle) / 1000);
    }
    allocations = allocations_of_this_thread() - allocations;
    print("first launch of a new problem, " + name + ", median", at_quantile(times, 0.5), "us");
    print("first launch of a new problem, " + name + ", p99", at_quantile(times, 0.99), "us");
    print("allocations for a new problem, " + name,
          static_cast<double>(allocations) / (problems - first_steady), "a call");
    print("selection alone, repeated, " + name + ", median", at_quantile(pure, 0.5), "us");
  }

 private:
  typename Operator::arguments call_;
  change_sizes change_;
  std::shared_ptr<sy::host::driver> driver_;
  sy::catalog catalog_;
  std::shared_ptr<const sy::selector> rules_;
  draw random_;
};

void draw_sizes(nothing::arguments& call, draw& random) {
  call.e = random.size(8);
  call.f = random.size(7);
  call.g = random.size(15);
  call.h = random.size(17);
}

void draw_sizes(attention_forward::arguments& call, draw& random) {
  call.batch = random.size(6);
  call.heads_kv = random.size(5);
  call.heads = call.heads_kv * (1 << random() % 4);
  call.seqlen_q = random.size(14);
  call.seqlen_k = call.seqlen_q + random.size(14);
}

/// Visits a first_choice of the operator `nothing`, or of attention_forward whose variants have that cost, or
/// have none.
template <class Visitor>
void visit_first_choice(std::string_view which, const Visitor& visit) {
  const disk files;
  draw random;
  if (which == "sizes" || which == "few") {
    files.put_manifest("nothing", make_variants(6));
    files.put_table("nothing", {make_group(make_rows(which == "few" ? 20 : 10'000, random))});
    visit(first_choice<nothing>{files, nothing::call(), draw_sizes},
          which == "few" ? "few rows" : "10,000 rows",
          {{"batch", 1, 256}, {"heads", 1, 128}, {"seqlen_q", 1, 32768}, {"seqlen_k", 1, 131072}});
    return;
  }
  if (which != "attention" && which != "costs") throw std::invalid_argument{"unknown: " + std::string{which}};
  std::vector<json> variants = make_variants(6);
  for (json& variant : variants) {
    variant["launches"] = take_all<attention_forward>("nothing_attention_forward")["launches"];
    if (which == "costs") variant["cost"] = tile_cost;
  }
  files.put_manifest("attention_forward", variants);
  auto call = attention_call(some_memory.data(), sy::dtype::f16);
  call.mask = sy::operators::attention_mask::causal_bottom_right;
  json rows = json::array();
  for (json& row : make_rows(10'000, random)) {
    draw_sizes(call, random);
    row["at"] = {call.batch, call.heads, call.heads_kv, call.seqlen_q, call.seqlen_k};
    rows.push_back(std::move(row));
  }
  json table = disk::make_table(
      "attention_forward", {{{"type", {{"dtype", "f16"}, {"head_dim", 128}, {"mask", "causal_bottom_right"}}},
                             {"axes", {"batch", "heads", "heads_kv", "seqlen_q", "seqlen_k"}},
                             {"rows", std::move(rows)}}});
  table["match"] = {{"batch", "ignore"},
                    {"heads", "ignore"},
                    {"heads_kv", "ignore"},
                    {"batch * heads", {{"log", 4}}},
                    {"batch * heads_kv", {{"log", 2}}},
                    {"seqlen_k % 64 == 0", {{"linear", 0.5}}}};
  files.write(files.table_path("attention_forward"), table.dump());
  visit(first_choice<attention_forward>{files, call, draw_sizes},
        which == "costs" ? "10,000 rows, costs" : "10,000 rows, attention",
        {{"batch", 1, 64},
         {"heads_kv", 1, 32},
         {"heads", 1, 256},
         {"seqlen_q", 1, 16384},
         {"seqlen_k", 1, 32768}});
}

struct sized {
  static constexpr std::string_view name = "sized";
  struct arguments {
    std::int64_t a = 0, b = 0, c = 0, d = 0, e = 0;
  };
  static constexpr auto fields = sy::fields<&arguments::a>;
  static constexpr auto axes =
      sy::axes(sy::size_axis<&arguments::a>(), sy::size_axis<&arguments::b>(), sy::size_axis<&arguments::c>(),
               sy::size_axis<&arguments::d>(), sy::size_axis<&arguments::e>());
};

std::shared_ptr<const sy::selector> make_selector(std::size_t rows, std::uint32_t dimensions) {
  const auto& op = sy::describe<sized>();
  const sy::device_properties device = sy::host::read_properties();
  auto manifest = std::make_shared<sy::manifest>();
  manifest->target = {device.backend, device.arch};
  auto table = std::make_shared<sy::table>();
  table->device = device;
  table->match.axes.assign(op.axes.size(), {});
  sy::row_group& group = table->groups.emplace_back();
  for (std::uint32_t axis = 0; axis < dimensions; ++axis) group.axes.push_back(axis);
  for (int i = 0; i < 6; ++i) {
    sy::variant variant;
    variant.id = "v" + std::to_string(i);
    manifest->variants.push_back(variant);
    group.ids.push_back(variant.id);
    group.blobs.emplace_back();
  }
  draw random;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::uint32_t axis = 0; axis < dimensions; ++axis) group.at.push_back(random.size(20));
    for (std::uint32_t i = 0; i < 4; ++i) {
      group.times.push_back({(static_cast<std::uint32_t>(row) + i) % 6, 1.0F + static_cast<float>(i)});
    }
    group.first_time.push_back(static_cast<std::uint32_t>(group.times.size()));
    group.source_row.push_back(static_cast<std::uint32_t>(row));
  }
  std::vector<std::string> warned;
  return sy::build_selector({&op, device, {manifest}, {}, {table}, {}}, warned);
}

void measure_growth() {
  for (const std::uint32_t dimensions : {2U, 4U, 5U}) {
    double smallest = 0;
    double largest = 0;
    for (const std::size_t rows : {100U, 1000U, 10'000U, 100'000U, 1'000'000U}) {
      const auto rules = make_selector(rows, dimensions);
      constexpr std::size_t queries = 100;  // few, so that most passes fit between two preemptions
      std::vector<double> times;
      std::vector<sy::problem_of<sized>> problems(queries);
      for (int pass = 0; pass < 600; ++pass) {
        draw random{static_cast<std::uint64_t>(pass) + 2};
        for (auto& problem : problems) {
          problem = {};
          for (std::uint32_t axis = 0; axis < dimensions; ++axis) problem[axis] = random.size(20);
        }
        const std::int64_t begin = now();
        for (const auto& problem : problems) {
          if (rules->select(problem).variant == sy::no_index) std::abort();
        }
        times.push_back(static_cast<double>(now() - begin) / queries);
      }
      const double median = at_quantile(times, 0.5);
      if (rows == 100) smallest = median;
      largest = median;
      print("selection, " + std::to_string(dimensions) + " axes, " + std::to_string(rows) + " rows", median,
            "ns");
    }
    print("selection growth, " + std::to_string(dimensions) + " axes", largest / smallest, "x");
  }
}

// 3. Opening

void measure_opening() {
  const disk files;
  draw random;
  for (int op = 0; op < 20; ++op) {
    const std::string name = "operator_" + std::to_string(op);
    files.put_blob(name, "nothing.so", "nothing.so");
    files.put_manifest(name, make_variants(500));
    files.put_table(name, {make_group(make_rows(500, random))});
  }
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) {
    const std::int64_t begin = processor_now();
    const sy::catalog catalog{files.options()};
    if (catalog.operators().size() != 20) std::abort();
    times.push_back(static_cast<double>(processor_now() - begin) / 1e6);
  }
  print("opening a catalog, 20 operators, 10,000 variants and rows", at_quantile(times, 0.5), "ms");

  const disk large{"nothing", make_variants(1000)};
  large.put_table("nothing", {make_group(make_rows(10'000, random, 1000))});
  times.clear();
  const auto driver = std::make_shared<sy::host::driver>(1);
  for (int i = 0; i < 15; ++i) {
    sy::catalog catalog{large.options()};
    const std::int64_t begin = processor_now();
    sy::dispatcher<nothing> on{catalog, sy::device{driver}};
    on(nullptr, nothing::call());
    times.push_back(static_cast<double>(processor_now() - begin) / 1e6);
  }
  print("first use, 1,000 variants and 10,000 rows, median", at_quantile(times, 0.5), "ms");
  print("first use, 1,000 variants and 10,000 rows, fastest", at_quantile(times, 0), "ms");
}

// 4. Decoding

void measure_decoding() {
  constexpr int steps = 100'000;
  constexpr int passes = 7;
  const disk files{"nothing", make_variants(6)};
  draw random;
  files.put_table("nothing", {make_group(make_rows(10'000, random))});
  std::vector<double> best(steps, 1e9);
  std::vector<double> alone;
  std::int64_t gained = 0;
  // The first pass is not timed: asking the allocator for its live bytes makes it tidy up, and the launches
  // after that take ten times as long.
  for (int pass = 0; pass <= passes; ++pass) {
    sy::catalog catalog{files.options()};
    sy::dispatcher<nothing> on{catalog, sy::device{std::make_shared<sy::host::driver>(1)}};
    auto call = nothing::call();
    on.prepare(call, {{"seqlen_k", 1, steps + 1}});
    call.g = 1;
    std::vector<double> times(steps);
    for (int step = 0; step < steps; ++step) {
      call.h = step + 1;
      const std::int64_t begin = now();
      on(nullptr, call);
      times[static_cast<std::size_t>(step)] = static_cast<double>(now() - begin) / 1000;
      if (pass == 0 && step == 20'000) gained = -live_bytes();
    }
    if (pass == 0) {
      gained += live_bytes();
      continue;
    }
    for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], times[i]);
    alone.push_back(at_quantile(times, 0.999));
  }
  // The machine's own pauses hit different steps in each pass; what the library does hits the same. The first
  // step is also the kernel's first run, whose pages are not there yet.
  print("decode loop, 100,000 steps, each step's best of 7 passes, the first", best[0], "us");
  best.erase(best.begin());
  print("decode loop, 100,000 steps, each step's best of 7 passes, median", at_quantile(best, 0.5), "us");
  print("decode loop, 100,000 steps, each step's best of 7 passes, p99.9", at_quantile(best, 0.999), "us");
  print("decode loop, 100,000 steps, each step's best of 7 passes, longest", at_quantile(best, 1), "us");
  print("decode loop, p99.9 within one pass, best pass", at_quantile(alone, 0), "us");
  print("decode loop, memory gained after step 20,000", static_cast<double>(gained), "bytes");
}

void count(std::string_view counted, std::int64_t calls) {
  const std::size_t dash = counted.find('-');
  const std::string_view how = counted.substr(dash + 1);
  if (how == "chosen" || how == "drawn") {
    visit_first_choice(counted.substr(0, dash),
                       [&](auto&& bench, const char*, std::initializer_list<sy::axis_span>) {
                         how == "chosen" ? bench.choose(calls) : bench.draw_only(calls);
                       });
    return;
  }
  visit_warm(counted.substr(0, dash), [&](auto&& bench, const char*) {
    if (how == "dispatched") {
      bench.dispatched(calls);
    } else if (how == "bare") {
      bench.bare(calls);
    } else {
      bench.empty(calls);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "count") == 0) {
    count(argv[2], std::strtoll(argv[3], nullptr, 10));
    return 0;
  }
  const std::string_view only = argc > 1 ? argv[1] : "";
  const auto wanted = [only](std::string_view part) { return only.empty() || only == part; };
  if (wanted("warm")) {
    for (const char* which : {"sixteen", "rotary", "attention"}) {
      visit_warm(which, [](auto&& bench, const char* name) { bench.measure(name); });
    }
  }
  if (wanted("first")) {
    for (const char* which : {"few", "sizes", "attention", "costs"}) {
      visit_first_choice(
          which, [](auto&& bench, const std::string& name, std::initializer_list<sy::axis_span> sizes) {
            bench.measure(name, sizes);
          });
    }
  }
  if (wanted("growth")) measure_growth();
  if (wanted("opening")) measure_opening();
  if (wanted("decoding")) measure_decoding();
}
