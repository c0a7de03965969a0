// SPDX-License-Identifier: MIT
// Live measuring by events of the fake driver: what is timed, what is not, and that nobody waits.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "fake_files.hpp"

namespace {

using namespace fake_cuda;

[[nodiscard]] std::vector<json> timed_variants() {
  return {{{"id", "only"}, {"launches", {{{"kernel", "take_8_4"}, {"parameters", {"out", "n"}}}}}}};
}

/// The fake's events as they are at first, for a scope.
struct usual_events {
  usual_events() { reset(); }
  usual_events(const usual_events&) = delete;
  usual_events& operator=(const usual_events&) = delete;
  ~usual_events() { reset(); }
  static void reset() {
    notes().event_create_answer = notes().event_record_answer = notes().event_query_answer = 0;
    notes().event_milliseconds = 1;
  }
};

struct measured {
  explicit measured(std::uint32_t one_in, std::size_t events = 64) {
    sy::catalog_options options = files.options();
    options.live.one_in = one_in;
    options.live.events = events;
    catalog = std::make_unique<sy::catalog>(std::move(options));
    run = std::make_unique<sy::dispatcher<touch>>(*catalog, fake_device(0));
  }
  void call(int times, std::int64_t size = 1) const {
    for (int i = 0; i < times; ++i) (*run)(stream.get(), {.size = size});
  }
  [[nodiscard]] sy::operator_counters counters() const { return catalog->counters().operators.at(0); }
  /// Times that are kept of the only problem's calls.
  [[nodiscard]] sy::live_time times() const {
    const sy::live_report found = catalog->live();
    return found.problems.empty() ? sy::live_time{} : found.problems.at(0).variants.at(0).calls;
  }

  usual_events usual;
  fake_files files{"touch", timed_variants()};
  std::unique_ptr<sy::catalog> catalog;
  fake_stream stream{primary(0)};
  std::unique_ptr<sy::dispatcher<touch>> run;
};

}  // namespace

TEST_CASE("one call in so many of each problem is timed, and nobody waits for the device") {
  const int waits = notes().event_waits;
  const measured with{8};
  with.call(1 + 80);  // the first one is planned, and never timed
  CHECK(with.times().count == 10);
  CHECK(with.times().last_us == 1000);
  CHECK(with.times().least_us == 1000);
  CHECK(with.times().median_us == 1000);
  CHECK(with.counters().live_times == 10);
  CHECK(with.counters().live_untimed == 0);
  CHECK(notes().event_waits == waits);
  CHECK_THAT(to_string(with.catalog->live()),
             has_text("touch {size=1} on Fake A") && has_text("only 1000 us in 10 calls"));
}

TEST_CASE("without a share no event is made and no call is counted") {
  const int records = notes().event_records;
  const measured with{0};
  with.call(50);
  CHECK(notes().event_records == records);
  CHECK(with.catalog->live().problems.empty());
  CHECK(with.counters().live_times == 0);
}

TEST_CASE("events that are not over are read later") {
  const measured with{1};
  notes().event_query_answer = sy::cuda::result::not_ready;
  with.call(1 + 5);
  CHECK(with.times().count == 0);
  CHECK(with.counters().live_untimed == 0);
  notes().event_query_answer = 0;
  with.catalog->poll_live();
  CHECK(with.times().count == 5);
}

TEST_CASE("an event is asked for in relaxed mode, since it would end another stream's capture") {
  const measured with{1};
  with.call(3);
  notes().query_mode = -1;
  with.catalog->poll_live();
  CHECK(notes().query_mode == sy::cuda::capture::relaxed);
}

TEST_CASE("nothing is recorded in a stream that is being captured") {
  const measured with{1};
  with.call(1);
  const fake_stream captured{primary(0), 1};
  const int records = notes().event_records;
  for (int i = 0; i < 10; ++i) (*with.run)(captured.get(), {});
  CHECK(notes().event_records == records);
  CHECK(with.times().count == 0);
}

TEST_CASE("no more events are made than allowed, and calls without one are not timed") {
  const int before = notes().events;
  {
    const measured with{1, 3};
    notes().event_query_answer = sy::cuda::result::not_ready;
    with.call(1 + 10);
    CHECK(notes().events == before + 6);  // pairs
    CHECK(with.counters().live_untimed == 7);
    notes().event_query_answer = 0;
    with.call(10);
    CHECK(notes().events == before + 6);
    CHECK(with.times().count == 13);
  }
  CHECK(notes().events == before);
}

TEST_CASE("events that cannot be made time nothing, with one warning, and no call fails") {
  const measured with{1};
  notes().event_create_answer = 2;
  with.call(1 + 20);
  CHECK(with.times().count == 0);
  CHECK(with.counters().live_untimed == 20);
  CHECK(with.catalog->counters().warnings.size() == 1);
  CHECK(with.catalog->counters().warnings.at(0).count == 1);
}

TEST_CASE("events that cannot be recorded or read drop their times") {
  const measured with{1};
  notes().event_record_answer = 700;
  with.call(1 + 4);
  CHECK(with.counters().live_untimed == 4);
  notes().event_record_answer = 0;
  with.call(2);
  notes().event_query_answer = 700;
  with.call(2);
  notes().event_query_answer = 0;
  with.call(1);
  CHECK(with.counters().live_untimed >= 5);
  CHECK(with.counters().live_untimed + with.times().count == 9);
}

TEST_CASE("a time that runs backwards or stands still is dropped") {
  const measured with{1};
  notes().event_milliseconds = -1;
  with.call(1 + 3);
  with.catalog->poll_live();
  notes().event_milliseconds = 0;
  with.call(3);
  with.catalog->poll_live();
  CHECK(with.times().count == 0);
  CHECK(with.counters().live_untimed == 6);
}

TEST_CASE("a call that fails is not timed, and its events are used again") {
  const int before = notes().events;
  const measured with{1};
  with.call(1);
  notes().launch_answers = {700, 700};
  CHECK_THROWS_AS(with.call(1), sy::driver_error);
  notes().launch_answers = {0, 0};
  with.call(3);
  CHECK(with.times().count == 3);
  CHECK(notes().events <= before + 4);
}

TEST_CASE("problems beyond the limit run, and are counted as left out") {
  sy::catalog_options options;
  const fake_files files{"touch", timed_variants()};
  options = files.options();
  options.live = {.one_in = 1, .events = 8, .problems = 2};
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<touch> run{catalog, fake_device(0)};
  const fake_stream stream{primary(0)};
  for (std::int64_t size = 1; size <= 5; ++size) {
    for (int i = 0; i < 3; ++i) run(stream.get(), {.size = size});
  }
  CHECK(catalog.live().problems.size() == 2);
  CHECK(catalog.live().left_out == 3);
}

TEST_CASE("threads call, poll and reload while calls are timed") {
  const measured with{2, 4};
  std::atomic<bool> stops{false};
  std::vector<std::thread> all;
  for (int t = 0; t < 3; ++t) {
    all.emplace_back([&, t] {
      const fake_stream mine{primary(0)};
      for (int i = 0; i < 2000; ++i) (*with.run)(mine.get(), {.size = t + 1 + i % 3});
    });
  }
  all.emplace_back([&] {
    while (!stops) {
      with.catalog->poll_live();
      (void)with.catalog->live();
    }
  });
  all.emplace_back([&] {
    while (!stops) (void)with.catalog->reload();
  });
  for (int t = 0; t < 3; ++t) all[static_cast<std::size_t>(t)].join();
  stops = true;
  all[3].join();
  all[4].join();
  std::uint64_t kept = 0;
  for (const sy::live_problem& problem : with.catalog->live().problems)
    kept += problem.variants.at(0).calls.count;
  const sy::operator_counters counted = with.counters();
  CHECK(kept == counted.live_times);
  CHECK(counted.live_times > 0);
  CHECK(counted.live_times + counted.live_untimed > 2900);
  CHECK(counted.live_times + counted.live_untimed < 3100);
}
