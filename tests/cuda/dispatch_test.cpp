// SPDX-License-Identifier: MIT
// Dispatchers on a Hopper GPU: captures, graphs, streams, threads, contexts, and what a first use costs.
// TEST_KERNELS names the folder of the blobs made of kernels.cu.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "environment.hpp"
#include "hopper.hpp"
#include "raw.hpp"
#include "scale_kernel.hpp"
#include "threads.hpp"
#include "thrown.hpp"
#include "timed_driver.hpp"
#include "written_files.hpp"

namespace {

using namespace cuda_test;
using device_test::is_scaled;
using device_test::pointers;
using device_test::scale;

/// The 16 x 32 tile of a matrix at (x, y).
struct tile {
  static constexpr std::string_view name = "tile";
  struct arguments {
    const float* matrix = nullptr;
    float* out = nullptr;
    std::int32_t x = 0;
    std::int32_t y = 0;
    std::int64_t rows = 64;
    std::int64_t columns = 128;
    std::int64_t stride = 128;
  };
  static constexpr auto fields = sy::fields<&arguments::matrix, &arguments::out, &arguments::x, &arguments::y,
                                            &arguments::rows, &arguments::columns, &arguments::stride>;
  static constexpr auto axes =
      sy::axes(sy::size_axis<&arguments::rows>(), sy::size_axis<&arguments::columns>());
};

constexpr int elements = 1000;

std::string read_blob() {
  const std::string folder = sy::test::required_variable("TEST_KERNELS");
  std::ifstream file{folder + "/kernels.sm_90a.cubin", std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

class files {
 public:
  files() {
    const std::string blob = read_blob();
    device_test::put_scale(on_disk_, blob);
    const json map{{"tensor_map",
                    {{"of", "matrix"},
                     {"dtype", "f32"},
                     {"extents", {"columns", "rows"}},
                     {"strides", {"4 * stride"}},
                     {"box", {32, 16}}}}};
    on_disk_.put(
        "tile", blob,
        {{{"id", "tma"},
          {"launches",
           {{{"kernel", "tensor_tile"}, {"block", {128, 1, 1}}, {"parameters", {map, "out", "x", "y"}}}}}}});
  }
  [[nodiscard]] sy::catalog_options options() const { return on_disk_.options(); }

 private:
  written_files on_disk_{"sm_90a"};
};

std::vector<float> random_values(std::size_t count) {
  static std::mt19937 random{sy::test::fresh_seed()};
  std::uniform_real_distribution<float> real{-100, 100};
  std::vector<float> out(count);
  for (float& value : out) value = real(random);
  return out;
}

/// The kernel of a module loaded without the library, for launches beside it.
CUfunc_st* bare_kernel(const char* name) {
  static const std::string blob = read_blob();
  static CUmod_st* const module = [] {
    CUmod_st* out = nullptr;
    raw::call("cuModuleLoadData", &out, static_cast<const void*>(blob.data()));
    return out;
  }();
  CUfunc_st* function = nullptr;
  raw::call("cuModuleGetFunction", &function, module, name);
  return function;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a prepared dispatcher is captured, and its graph replays with what memory then holds") {
  need_hopper();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<scale> run{catalog};
  for (const int n : {elements, 6000}) {
    const auto count = static_cast<std::size_t>(n);
    const raw::own_stream stream;
    const auto first = random_values(count);
    const raw::buffer<float> x{first};
    const raw::buffer<float> y{std::vector<float>(count, NAN)};
    const scale::arguments call{.y = y.get(), .x = x.get(), .a = 3, .n = n};
    run.prepare(stream.get(), call);
    const raw::graph graph{stream.get(), 0, [&] { run(stream.get(), call); }};
    CHECK(std::isnan(y.read()[0]));
    graph.launch(stream.get());
    if (n == elements) CHECK(is_scaled(y.read(), first, 3));
    const auto second = random_values(count);
    raw::call("cuMemcpyHtoD_v2", reinterpret_cast<unsigned long long>(x.get()),
              static_cast<const void*>(second.data()), count * sizeof(float));
    raw::call("cuCtxSynchronize");  // the stream does not wait for the legacy one
    for (int i = 0; i < 3; ++i) graph.launch(stream.get());
    CHECK(is_scaled(y.read(), second, 3));
  }
}

TEST_CASE("an unprepared call is refused inside a capture, which goes on") {
  need_hopper();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<scale> run{catalog};
  sy::dispatcher<tile> other{catalog};
  const raw::own_stream stream;
  const auto values = random_values(elements);
  const raw::buffer<float> x{values};
  const raw::buffer<float> y{std::vector<float>(elements, NAN)};
  const scale::arguments call{.y = y.get(), .x = x.get(), .a = 3, .n = elements};
  run.prepare(call);
  const raw::graph graph{stream.get(), 0, [&] {
                           for (int i = 0; i < 2; ++i) {
                             const auto problem = sy::test::error_of<sy::driver_error>(
                                 [&] { other(stream.get(), {.matrix = x.get(), .out = y.get()}); });
                             CHECK(problem.code() == sy::error_code::load_during_capture);
                             CHECK_THAT(problem.what(), has_text("prepare()"));
                           }
                           run(stream.get(), call);
                         }};
  graph.launch(stream.get());
  CHECK(is_scaled(y.read(), values, 3));
}

TEST_CASE("graphs of a dispatcher and of bare launches give the same bits") {
  need_hopper();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<scale> run{catalog};
  const raw::own_stream stream;
  const auto values = random_values(elements);
  const raw::buffer<float> x{values};
  const raw::buffer<float> ours{std::vector<float>(elements, NAN)};
  const raw::buffer<float> bare{std::vector<float>(elements, NAN)};
  scale::arguments call{.y = ours.get(), .x = x.get(), .a = 1.0F / 3, .n = elements};
  run.prepare(call);
  const auto replay = [&](const auto& work) {
    const raw::graph graph{stream.get(), 0, work};
    graph.launch(stream.get());
    graph.launch(stream.get());
  };
  replay([&] { run(stream.get(), call); });
  float* y = bare.get();
  auto parameters = pointers(y, call.x, call.a, call.n);
  CUfunc_st* const function = bare_kernel("scale");
  replay([&] {
    raw::call("cuLaunchKernel", function, 8U, 1U, 1U, 128U, 1U, 1U, 0U, stream.get(), parameters.data(),
              static_cast<void**>(nullptr));
  });
  const auto expected = bare.read();
  CHECK(is_scaled(expected, values, call.a));
  CHECK(same_bits(ours.read(), expected));
}

TEST_CASE("threads with streams of their own get their own results") {
  need_hopper();
  const files disk;
  sy::catalog_options options = disk.options();
  options.plan_capacity = 64;
  sy::catalog catalog{options};
  sy::dispatcher<scale> routed{catalog};
  sy::dispatcher<scale> bound{catalog, sy::device{sy::cuda::open(0)}};
  std::atomic<int> wrong{0};
  switchyard::test::run_threads(8, [&](int t) {
    raw::set_current(raw::primary_context());
    sy::dispatcher<scale>& run = t % 2 == 0 ? routed : bound;
    const raw::own_stream first;
    const raw::own_stream second;
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + static_cast<float>(t);
    const raw::buffer<float> x{values};
    const raw::buffer<float> y{values.size()};
    const raw::buffer<float> z{values.size()};
    for (int i = 1; i <= 400; ++i) {
      const int n = elements - i % 100;  // more problems than plans are kept
      const auto a = static_cast<float>(i);
      const raw::own_stream& on = i % 2 == 0 ? first : second;
      run(on.get(), {.y = y.get(), .x = x.get(), .a = a, .n = n});
      run(on.get(), {.y = z.get(), .x = y.get(), .a = 2, .n = n});
      raw::call("cuStreamSynchronize", on.get());
      if (i % 40 != 0) continue;
      const auto out = z.read();
      for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
        if (out[k] != 2 * (a * values[k])) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("calls follow their streams from context to context") {
  need_hopper();
  const files disk;
  CUctx_st* own = nullptr;
  raw::call("cuCtxCreate_v2", &own, 0U, 0);
  {
    sy::catalog catalog{disk.options()};
    sy::dispatcher<scale> run{catalog};
    sy::dispatcher<tile> tiles{catalog};
    struct place {
      CUctx_st* context;
      std::unique_ptr<raw::own_stream> stream;
      std::unique_ptr<raw::buffer<float>> x, y;
    };
    const auto values = random_values(std::size_t{64} * 128);
    std::vector<place> places;
    for (CUctx_st* const context : {raw::primary_context(), own}) {
      raw::set_current(context);
      places.push_back({context, std::make_unique<raw::own_stream>(),
                        std::make_unique<raw::buffer<float>>(values),
                        std::make_unique<raw::buffer<float>>(std::vector<float>(elements, NAN))});
    }
    for (int round = 0; round < 3; ++round) {
      for (const place& here : places) {
        for (CUctx_st* const current : {own, raw::primary_context()}) {
          raw::set_current(current);
          const float a = static_cast<float>(round) + (current == own ? 2.0F : 3.0F);
          run(here.stream->get(), {.y = here.y->get(), .x = here.x->get(), .a = a, .n = elements});
          CHECK(raw::current_context() == current);
          raw::set_current(here.context);
          const auto out = here.y->read();
          CHECK(is_scaled(out, {values.begin(), values.begin() + elements}, a));
          // The default stream of whichever is current.
          run({}, {.y = here.y->get(), .x = here.x->get(), .a = a + 1, .n = elements});
          CHECK(is_scaled(here.y->read(), {values.begin(), values.begin() + elements}, a + 1));
          tiles(here.stream->get(), {.matrix = here.x->get(), .out = here.y->get(), .x = 64, .y = 48});
          const auto copied = here.y->read();
          bool right = true;
          for (std::size_t at = 0; at < std::size_t{16} * 32; ++at)
            right = right && copied[at] == values[(48 + at / 32) * 128 + 64 + at % 32];
          CHECK(right);
        }
      }
    }
    CHECK(run.device_of(places[0].stream->get()).driver() != run.device_of(places[1].stream->get()).driver());

    // A dispatcher of one context refuses the other's stream: problem new, problem known.
    raw::set_current(raw::primary_context());
    sy::dispatcher<scale> bound{catalog, sy::device{sy::cuda::open(0)}};
    const scale::arguments call{.y = places[0].y->get(), .x = places[0].x->get(), .a = 1, .n = elements};
    for (int i = 0; i < 2; ++i) {
      const auto problem = sy::test::error_of<sy::call_error>([&] { bound(places[1].stream->get(), call); });
      CHECK(problem.code() == sy::error_code::invalid_argument);
      CHECK_THAT(problem.what(), has_text("another device or context"));
      bound(places[0].stream->get(), call);
    }
    for (const place& here : places) {
      raw::set_current(here.context);
      raw::call("cuCtxSynchronize");
    }
    // Memory and streams go before their context.
    raw::set_current(own);
    places.pop_back();
    raw::set_current(raw::primary_context());
    places.pop_back();
  }
  raw::call("cuCtxDestroy_v2", own);
  raw::set_current(raw::primary_context());
}

TEST_CASE("a tensor map follows its matrix") {
  need_hopper();
  const files disk;
  sy::catalog catalog{disk.options()};
  sy::dispatcher<tile> run{catalog};
  const raw::own_stream stream;
  const raw::buffer<float> out{std::size_t{16} * 32};
  for (int i = 0; i < 4; ++i) {
    const std::int64_t stride = i % 2 == 0 ? 128 : 160;
    const auto values = random_values(static_cast<std::size_t>(64 * stride));
    const raw::buffer<float> matrix{values};
    for (int again = 0; again < 3; ++again) {
      const std::int32_t x = 32 * again;
      run(stream.get(), {.matrix = matrix.get(), .out = out.get(), .x = x, .y = 16, .stride = stride});
      const auto copied = out.read();
      bool right = true;
      for (std::size_t at = 0; at < std::size_t{16} * 32; ++at) {
        right = right && copied[at] == values[(16 + at / 32) * static_cast<std::size_t>(stride) +
                                              static_cast<std::size_t>(x) + at % 32];
      }
      CHECK(right);
    }
  }
}

TEST_CASE("a first use costs little besides the driver's load") {
  need_hopper();
  const files disk;
  std::vector<double> ours;
  std::vector<double> drivers;
  for (int i = 0; i < 21; ++i) {
    const auto driver = std::make_shared<timed_driver>(sy::cuda::open(0));
    sy::catalog catalog{disk.options()};
    sy::dispatcher<scale> run{catalog, sy::device{driver}};
    const raw::own_stream stream;
    const raw::buffer<float> y{elements};
    const scale::arguments call{.y = y.get(), .x = y.get(), .a = 1, .n = elements};
    const auto begin = std::chrono::steady_clock::now();
    run(stream.get(), call);
    const auto end = std::chrono::steady_clock::now();
    raw::call("cuStreamSynchronize", stream.get());
    drivers.push_back(driver->microseconds);
    ours.push_back(std::chrono::duration<double, std::micro>(end - begin).count() - driver->microseconds);
  }
  std::sort(ours.begin(), ours.end());
  std::sort(drivers.begin(), drivers.end());
  std::printf("first use of a kernel: %.1f us besides the driver's %.1f us (medians of %zu), budget 100 us\n",
              ours[ours.size() / 2], drivers[drivers.size() / 2], ours.size());
  CHECK(ours[ours.size() / 2] < 300);  // room for a busy machine
}
