// SPDX-License-Identifier: MIT
// Dispatchers that serve every device, over the fake driver, which has two.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/torch/extension/capture.hpp"
#include "catch.hpp"
#include "child_process.hpp"
#include "fake_files.hpp"
#include "threads.hpp"
#include "thrown.hpp"

namespace {

using namespace fake_cuda;

/// A kernel for devices with compute capability 9 and one for all; above size 100 a workspace as well.
std::vector<json> touch_variants() {
  const json launch{{"kernel", "take_8_4"}, {"parameters", {"out", "n"}}};
  const json with_buffer{{"kernel", "take_8_4"}, {"parameters", {"buffer", "n"}}};
  return {{{"id", "buffered"},
           {"requires", {"size > 100"}},
           {"workspace", {{"buffer", "64"}}},
           {"launches", {{{"fill", "buffer"}, {"byte", 0}}, with_buffer, with_buffer}}},
          {{"id", "for_9"}, {"requires", {"compute_capability >= 90"}}, {"launches", {launch}}},
          {{"id", "for_all"}, {"launches", {launch}}}};
}

/// Launches that each device's context has seen.
int launches(CUctx_st* context) {
  return fake<int>("fake_cuda_launches", context);
}

template <class Work>
std::pair<int, int> launched(const Work& work) {
  const std::pair before{launches(primary(0)), launches(primary(1))};
  work();
  return {launches(primary(0)) - before.first, launches(primary(1)) - before.second};
}

using counts = std::pair<int, int>;

sy::stream default_stream(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

}  // namespace

TEST_CASE("a call goes to the device of its stream, whichever is current") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  const fake_stream first{primary(0)};
  const fake_stream second{primary(1)};
  for (CUctx_st* const now : {primary(0), primary(1), static_cast<CUctx_st*>(nullptr)}) {
    set_current(now);
    for (int i = 0; i < 3; ++i) {
      CHECK(launched([&] { run(first.get(), {}); }) == counts{1, 0});
      CHECK(launched([&] { run(second.get(), {}); }) == counts{0, 1});
      CHECK(launched([&] { run(second.get(), {.size = 101}); }) == counts{0, 2});
    }
    CHECK(current() == now);
  }
  CHECK(run.device_of(first.get()).driver() == fake_device(0).driver());
  CHECK(run.device_of(second.get()).driver() == fake_device(1).driver());
  CHECK(run.explain(first.get(), {}).variant == "for_9");
  CHECK(run.explain(second.get(), {}).variant == "for_all");
  CHECK(run.workspace_bytes(second.get(), {}) == 0);
  CHECK(run.workspace_bytes(second.get(), {.size = 101}) == 256);
  set_current(nullptr);
}

TEST_CASE("a default stream is of the thread's current device") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  for (const std::uintptr_t number : {0U, 1U, 2U}) {
    for (int i = 0; i < 2; ++i) {
      set_current(primary(1));
      CHECK(launched([&] { run(default_stream(number), {}); }) == counts{0, 1});
      set_current(primary(0));
      CHECK(launched([&] { run(default_stream(number), {}); }) == counts{1, 0});
      set_current(nullptr);
      CHECK(launched([&] { run(default_stream(number), {}); }) == counts{1, 0});
    }
  }
  set_current(primary(1));
  CHECK(run.explain({}).variant == "for_all");
  std::thread{[&] { CHECK(run.explain({}).variant == "for_9"); }}.join();
  set_current(nullptr);
}

TEST_CASE("a context of the engine's own is a device of its own") {
  const fake_context own{1, 77};
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  const fake_stream on_own{own.get()};
  const fake_stream on_primary{primary(1)};
  CHECK(launched([&] {
          run(on_own.get(), {});
          run(on_own.get(), {});
        }) == counts{0, 0});
  CHECK(launches(own.get()) == 2);
  CHECK(launched([&] { run(on_primary.get(), {}); }) == counts{0, 1});
  set_current(own.get());
  run({}, {});
  CHECK(launches(own.get()) == 3);
  set_current(nullptr);
}

TEST_CASE("a handle that is another device's stream by now is noticed") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  fake_stream stream{primary(0)};
  for (const std::int64_t size : {1, 101}) {
    run(stream.get(), {.size = size});
    stream.replace(primary(1));
    const int refused = notes().refused;
    const int wanted = size == 1 ? 1 : 2;
    CHECK(launched([&] { run(stream.get(), {.size = size}); }) == counts{0, wanted});
    CHECK(notes().refused > refused);  // the driver's word is what tells
    const int after = notes().refused;
    CHECK(launched([&] { run(stream.get(), {.size = size}); }) == counts{0, wanted});
    CHECK(notes().refused == after);
    // The same with a problem that is new on the device that was known.
    stream.replace(primary(0));
    CHECK(launched([&] { run(stream.get(), {.size = size + 1}); }) == counts{wanted, 0});
  }
}

TEST_CASE("a dispatcher made for a device refuses another one's streams") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog, fake_device(0)};
  const fake_stream own{primary(0)};
  const fake_stream foreign{primary(1)};
  const auto refused = [&](std::int64_t size) {
    try {
      run(foreign.get(), {.size = size});
    } catch (const sy::call_error& problem) {
      CHECK_THAT(problem.what(), has_text("touch") && has_text("Fake A") && has_text("another device"));
      return problem.code() == sy::error_code::invalid_argument;
    }
    return false;
  };
  CHECK(launched([&] {
          for (const std::int64_t size : {1, 101}) CHECK(refused(size));  // problems that are new
        }) == counts{0, 0});
  run(own.get(), {});
  run(own.get(), {.size = 101});
  CHECK(launched([&] {
          for (const std::int64_t size : {1, 101}) CHECK(refused(size));  // and known
        }) == counts{0, 0});
  // Its default streams are its own device's, whichever is current.
  set_current(primary(1));
  for (const std::uintptr_t number : {0U, 1U, 2U}) {
    CHECK(launched([&] { run(default_stream(number), {}); }) == counts{1, 0});
  }
  set_current(nullptr);
}

TEST_CASE("prepare readies the device of a stream, and a capture there needs it") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  const fake_stream first{primary(0)};
  const fake_stream captured{primary(1), 1};
  {  // what other tests loaded stays loaded: give it back
    const sy::dispatcher<touch> on_first{catalog, fake_device(0)};
    const sy::dispatcher<touch> on_second{catalog, fake_device(1)};
    (void)catalog.unload_unused();
  }
  const int before = notes().modules;
  run.prepare(first.get(), {});
  CHECK(notes().modules == before + 1);
  const auto problem = sy::test::error_of<sy::driver_error>([&] { run(captured.get(), {}); });
  CHECK(problem.code() == sy::error_code::load_during_capture);
  run.prepare(captured.get(), {});
  CHECK(notes().modules == before + 2);
  CHECK(launched([&] { run(captured.get(), {}); }) == counts{0, 1});
  run.prepare(captured.get(), {}, {{"size", 1, 64}});
  CHECK(launched([&] { run(captured.get(), {.size = 64}); }) == counts{0, 1});
  set_current(primary(1));
  run.prepare({}, {{"size", 1, 200}});  // the current device
  CHECK(launched([&] { run(captured.get(), {.size = 200}); }) == counts{0, 2});
  CHECK(notes().modules == before + 2);
  set_current(nullptr);
}

TEST_CASE("the PyTorch extension loads what a capture needs, with the thread's capture mode relaxed") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  const fake_stream captured{primary(0), 1};
  int prepared = 0;
  const auto call = [&](sy::dispatcher<touch>& run, std::int64_t size) {
    switchyard_torch::launch_in_capture(
        run, captured.get(), [&] { run(captured.get(), {.size = size}); },
        [&] {
          ++prepared;
          run.prepare(captured.get(), {.size = size});
        });
  };
  sy::dispatcher<touch> run{catalog, fake_device(0)};
  (void)catalog.unload_unused();  // what other tests loaded
  const int before = notes().modules;
  notes().load_mode = -1;
  CHECK(launched([&] { call(run, 1); }) == counts{1, 0});
  CHECK(notes().modules == before + 1);
  CHECK(notes().load_mode == sy::cuda::capture::relaxed);
  CHECK(launched([&] { call(run, 200); }) == counts{2, 0});  // a fill, and two launches of what is loaded
  CHECK(prepared == 1);

  SECTION("any other failure is passed on") {
    const auto fail = [] { throw sy::driver_error{sy::error_code::launch_failed, "why"}; };
    const auto prepare = [&] { ++prepared; };
    CHECK_THROWS_WITH(switchyard_torch::launch_in_capture(run, captured.get(), fail, prepare),
                      has_text("why"));
    CHECK(prepared == 1);
  }
  SECTION("a driver before 12.3 would end the capture: the call is refused") {
    const misbehaviour eleven{"eleven"};
    sy::dispatcher<touch> old{catalog, sy::device{sy::cuda::open(0, renamed())}};
    CHECK_THROWS_WITH(call(old, 1), has_text("switchyard.212"));
    CHECK(prepared == 1);
  }
}

TEST_CASE("what makes a call fail is told once, whatever the route") {
  const fake_files files{"touch",
                         {{{"id", "small"},
                           {"requires", {"size < 10"}},
                           {"launches", {{{"kernel", "take_8_4"}, {"parameters", {"out", "n"}}}}}}}};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  const fake_stream stream{primary(0)};
  run(stream.get(), {.size = 1});
  CHECK_THROWS_WITH(run(stream.get(), {.size = 10}), has_text("switchyard.302") && has_text("size < 10"));
}

TEST_CASE("more streams than are remembered, and as many contexts as are served") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  std::vector<std::unique_ptr<fake_stream>> streams;
  for (int i = 0; i < 1000; ++i) streams.push_back(std::make_unique<fake_stream>(primary(i % 2)));
  CHECK(launched([&] {
          for (int round = 0; round < 2; ++round) {
            for (const auto& stream : streams) run(stream->get(), {});
          }
        }) == counts{1000, 1000});
  streams.clear();

  std::vector<std::unique_ptr<fake_context>> contexts;
  int served = 0;
  try {
    for (unsigned long long i = 0; i < 300; ++i) {
      contexts.push_back(std::make_unique<fake_context>(0, 1000 + i));
      const fake_stream stream{contexts.back()->get()};
      run(stream.get(), {});
      ++served;
    }
  } catch (const sy::driver_error& problem) {
    CHECK(problem.code() == sy::error_code::unsupported_device);
    CHECK_THAT(problem.what(), has_text("256 contexts"));
  }
  CHECK(served == 254);  // two are the primary ones
}

TEST_CASE("threads meet devices, streams and problems at once") {
  const fake_files files{"touch", touch_variants()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<touch> run{catalog};
  std::atomic<int> failed{0};
  constexpr int calls = 3000;
  const counts seen = launched([&] {
    switchyard::test::run_threads(8, [&](int t) {
      const fake_stream first{primary(0)};
      const fake_stream second{primary(1)};
      for (int i = 0; i < calls; ++i) {
        set_current(primary((t + i) % 2));
        try {
          run(first.get(), {.size = 1 + i % 50});
          run(second.get(), {.size = 1 + i % 50});
          run({}, {.size = 1 + i % 50});
        } catch (const sy::error&) {
          ++failed;
        }
      }
      set_current(nullptr);
    });
  });
  CHECK(failed == 0);
  CHECK(seen == counts{8 * calls * 3 / 2, 8 * calls * 3 / 2});
}

TEST_CASE("files without a router serve dispatchers of one device only") {
  class one_device final : public sy::state_source {
   public:
    void attach(const sy::operator_description&, const sy::device&, sy::state_user&) override {}
    void detach(sy::state_user&) noexcept override {}
  };
  one_device source;
  CHECK_THROWS_WITH(sy::dispatcher<touch>{source}, has_text("switchyard.204") && has_text("that device"));
}

TEST_CASE(
    "a child of fork() is refused its parent's devices, and leaves their handles alone when it destroys") {
  const fake_files files{"touch", touch_variants()};
  auto catalog = std::make_unique<sy::catalog>(files.options());
  auto run = std::make_unique<sy::dispatcher<touch>>(*catalog);
  const fake_stream first{primary(0)};
  (*run)(first.get(), {});
  catalog->watch(std::chrono::milliseconds{1});
  const int seen = launches(primary(0));
  for (int i = 0; i < 50; ++i) {
    INFO("child " << i);
    CHECK(::test::status_of_child([&] {
            int wrong = 0;
            for (const std::int64_t size : {1, 101}) {
              std::string message;
              try {
                (*run)(first.get(), {.size = size});
              } catch (const sy::error& problem) {
                message = problem.what();
              }
              if (message.find("before fork()") == std::string::npos) {
                std::fprintf(stderr, "in the child, size %d: %s\n", static_cast<int>(size), message.c_str());
                ++wrong;
              }
            }
            (void)catalog->reload();
            run.reset();
            catalog.reset();
            return wrong == 0 && launches(primary(0)) == seen ? 7 : 1;
          }) == 7);
  }
  (*run)(first.get(), {});
  CHECK(launches(primary(0)) == seen + 1);
}
