// SPDX-License-Identifier: MIT
// Every kind of kernel parameter, grids and workspaces, through an operator of the test's own.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;

json axpy_variant(const char* id, int block) {
  return {{"id", id},
          {"config", {{"block", block}}},
          {"launches",
           {{{"blob", "arithmetic.so"},
             {"kernel", "axpy_f32"},
             {"grid", {"ceil_div(n, block)", 1, 1}},
             {"block", {"block", 1, 1}},
             {"parameters", {"a", "x", "y", "n"}}}}}};
}

/// All kinds at once. `late` is added to every expression: empty, or a term that reads an argument that is 0.
json echo_variant(const std::string& late) {
  const auto with = [&late](const std::string& text) { return text + late; };
  return {{"id", "all"},
          {"config", {{"tile", 16}, {"flag", true}}},
          {"launches",
           {{{"blob", "echo.so"},
             {"kernel", "echo_all"},
             {"parameters",
              {"out",
               {{"i8", with("-size - 100")}},
               {{"u8", with("flag ? 255 : 0")}},
               {{"i16", with("min(-32768, size)")}},
               {{"u16", with("(1 << tile) - 1")}},
               {{"i32", with("-2147483648")}},
               {{"u32", with("4294967295")}},
               {{"i64", with("round_up(size, 1000) - 9223372036854775807")}},
               {{"u64", with("next_pow2(size) * 1000000007")}},
               {{"f16", with("1.0 / 3")}},
               {{"bf16", with("log2e")}},
               {{"f32", with("sqrt(size) * pi")}},
               {{"f64", with("exp2(-0.5) / tile")}},
               {{"pointer", with("pointer + 4 * size")}},
               {{"null", 16}},
               {{"struct",
                 {{{"i16", with("7")}},
                  {{"struct", {{{"u8", with("9")}}, {{"f64", with("0.25")}}, {{"f16", with("65504")}}}}},
                  "pointer",
                  {{"i8", with("-3")}}}}}}}}}}};
}

}  // namespace

TEST_CASE("an engine's own operator computes, whichever variant serves it") {
  const disk files{"axpy", {axpy_variant("b64", 64), axpy_variant("b7", 7)}};
  for (const char* forced : {"b64", "b7", "block=7"}) {
    sy::catalog_options options = files.options();
    options.settings.forced = {{"axpy", forced}};
    sy::catalog catalog{options};
    sy::dispatcher<axpy> run{catalog, sy::device::host()};
    std::vector<float> x(1000);
    std::iota(x.begin(), x.end(), 0.0F);
    std::vector<float> y(1000, 1.0F);
    run(nullptr, {.a = 2, .x = x.data(), .y = y.data(), .n = 1000});
    run(nullptr, {.a = -1, .x = x.data(), .y = y.data(), .n = 500});  // another argument in the same place
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto value = static_cast<float>(i);
      REQUIRE(y[i] == (i < 500 ? 1.0F + value : 1.0F + 2 * value));
    }
  }
}

namespace {

/// y[i] += (w[0] + w[2]) x[i], of which the kernel is axpy's.
struct weighted_axpy {
  static constexpr std::string_view name = "weighted_axpy";
  struct arguments {
    float w[3] = {};              // NOLINT(modernize-avoid-c-arrays)
    std::int32_t counts[2] = {};  // NOLINT(modernize-avoid-c-arrays)
    const float* x = nullptr;
    float* y = nullptr;
    std::int64_t size = 0;
  };
  static constexpr auto fields =
      sy::fields<&arguments::w, &arguments::counts, &arguments::x, &arguments::y, &arguments::size>;
  static constexpr auto axes = sy::axes(sy::size_axis<&arguments::size>());
};

}  // namespace

TEST_CASE("elements of an array are parameters, in place and in expressions") {
  const disk files;
  json variant = axpy_variant("b64", 64);
  const bool computed = GENERATE(false, true);
  json weight = "w[1]";
  if (computed) weight = {{"f32", "w[0] + w[2]"}};
  variant["launches"][0]["grid"][0] = "ceil_div(size, block)";
  variant["launches"][0]["parameters"] = {weight, "x", "y", {{"i64", "counts[0] + counts[1]"}}};
  files.put_manifest("weighted_axpy", {variant});
  disk_dispatcher<weighted_axpy> run{files, sy::device::host()};
  std::vector<float> x(100, 2.0F);
  std::vector<float> y(100, 1.0F);
  weighted_axpy::arguments call{
      .w = {3, 7, 2}, .counts = {40, 10}, .x = x.data(), .y = y.data(), .size = 100};
  run(nullptr, call);
  CHECK(y[49] == (computed ? 11.0F : 15.0F));
  CHECK(y[50] == 1.0F);
  call.w[1] = call.w[2] = 0;
  run(nullptr, call);
  CHECK(y[0] == (computed ? 17.0F : 15.0F));

  variant["launches"][0]["parameters"][0] = "w[3]";
  files.put_manifest("weighted_axpy", {variant});
  sy::catalog other{files.options()};
  const auto problem = sy::test::error_of<sy::error>([&] {
    sy::dispatcher<weighted_axpy>{other, sy::device::host()}(nullptr, call);
  });
  CHECK_THAT(problem.what(), has_text("'w[3]' is neither an argument") && has_text("did you mean 'w[0]'"));
}

TEST_CASE("launches with the same per-call values get them, whether or not one before them is started") {
  const disk files;
  json variant = axpy_variant("b64", 64);
  json launch = variant["launches"][0];
  launch["parameters"] = {{{"f32", "w[0] + w[2]"}}, "x", "y", {{"i64", "counts[0] + counts[1]"}}};
  launch["grid"][0] = 2;
  const json always = launch;
  json other = launch;
  other["parameters"][0] = {{"f32", "w[1] + 0.0"}};
  launch["grid"][0] = "size > 100 ? 2 : 0";
  variant["launches"] = {launch, always, always, other, always};
  files.put_manifest("weighted_axpy", {variant});
  disk_dispatcher<weighted_axpy> run{files, sy::device::host()};
  std::vector<float> x(101, 2.0F);
  std::vector<float> y(101);
  weighted_axpy::arguments call{.counts = {90, 10}, .x = x.data(), .y = y.data()};
  for (const std::int64_t size : {100, 101, 100}) {
    for (const float weight : {3.0F, -5.0F}) {
      call.size = size;
      call.w[0] = weight;
      call.w[1] = 100 * weight;
      y.assign(101, 0.0F);
      run(nullptr, call);
      CHECK(y[99] == (size > 100 ? 208.0F : 206.0F) * weight);
      CHECK(y[100] == 0);
    }
  }
}

TEST_CASE("each kind of parameter arrives as the manifest says, decided at plan time or at the call") {
  const bool late = GENERATE(false, true);
  const disk files{"echo", {echo_variant(late ? " + i8" : "")}};
  disk_dispatcher<echo> run{files, sy::device::host()};
  echo_kernel::report got;
  std::array<std::byte, 64> memory{};
  const echo::arguments call{.pointer = memory.data(), .out = &got, .size = 10};
  for (int repeat = 0; repeat < 2; ++repeat) {
    got = {};
    run(nullptr, call);
    CHECK(files.log().empty());
    CHECK(int{got.i8} == -110);
    CHECK(int{got.u8} == 255);
    CHECK(int{got.i16} == -32768);
    CHECK(int{got.u16} == 65535);
    CHECK(got.i32 == -2147483647 - 1);
    CHECK(got.u32 == 4294967295U);
    CHECK(got.i64 == 1000 - 9223372036854775807);
    CHECK(got.u64 == 16 * std::uint64_t{1000000007});
    CHECK(int{got.f16} == 0x3555);   // 1/3 in binary16
    CHECK(int{got.bf16} == 0x3fb9);  // 1.4427 in bfloat16, to nearest
    CHECK(got.f32 == static_cast<float>(std::sqrt(10.0) * 3.14159265358979323846));
    CHECK(got.f64 == std::exp2(-0.5) / 16);
    CHECK(got.pointer == memory.data() + 40);
    CHECK(got.null == std::array<std::uint64_t, 2>{0, 0});
    CHECK(int{got.structure.first} == 7);
    CHECK(int{got.structure.middle.tag} == 9);
    CHECK(got.structure.middle.weight == 0.25);
    CHECK(int{got.structure.middle.half} == 0x7bff);
    CHECK(got.structure.pointer == memory.data());
    CHECK(int{got.structure.last} == -3);
  }
}

TEST_CASE("a field is passed as it is at each call, in place or in a struct") {
  const disk files{"echo",
                   {{{"id", "fields"},
                     {"launches",
                      {{{"blob", "echo.so"},
                        {"kernel", "echo_all"},
                        {"parameters",
                         {"out",
                          "i8",
                          "u8",
                          "i16",
                          "u16",
                          "i32",
                          "u32",
                          "i64",
                          "u64",
                          {{"f16", "f32"}},
                          {{"bf16", "f64"}},
                          "f32",
                          "f64",
                          "pointer",
                          {{"null", 16}},
                          {{"struct", {"i16", {{"struct", {"u8", "f64", "u16"}}}, "pointer", "i8"}}}}}}}}}}};
  disk_dispatcher<echo> run{files, sy::device::host()};
  echo_kernel::report got;
  echo::arguments call{.i8 = -1,
                       .u8 = 2,
                       .i16 = -3,
                       .u16 = 4,
                       .i32 = -5,
                       .u32 = 6,
                       .i64 = -7,
                       .u64 = 8,
                       .f32 = 1.5F,
                       .f64 = -2.5,
                       .pointer = nullptr,
                       .out = &got,
                       .size = 1};
  for (int repeat = 0; repeat < 3; ++repeat) {
    run(nullptr, call);
    CHECK(got.i8 == call.i8);
    CHECK(got.u8 == call.u8);
    CHECK(got.i16 == call.i16);
    CHECK(got.u16 == call.u16);
    CHECK(got.i32 == call.i32);
    CHECK(got.u32 == call.u32);
    CHECK(got.i64 == call.i64);
    CHECK(got.u64 == call.u64);
    CHECK(got.f32 == call.f32);
    CHECK(got.f64 == call.f64);
    CHECK(int{got.f16} == (repeat == 0 ? 0x3e00 : repeat == 1 ? 0x4100 : 0x4300));  // 1.5, 2.5, 3.5
    CHECK(int{got.bf16} == 0xc020);                                                 // -2.5
    CHECK(int{got.structure.first} == call.i16);
    CHECK(got.structure.middle.tag == call.u8);
    CHECK(got.structure.middle.weight == call.f64);
    CHECK(got.structure.last == call.i8);
    call.i8 = static_cast<std::int8_t>(call.i8 - 1);
    call.u64 += 1000;
    call.f32 += 1;
  }
}

TEST_CASE("a value that does not fit its parameter is an error that names both") {
  const bool late = GENERATE(false, true);
  const disk files;
  json variant = echo_variant("");
  variant["launches"][0]["parameters"][1] = {{"i8", late ? "size + i16" : "size"}};
  files.put_manifest("echo", {variant});
  disk_dispatcher<echo> run{files, sy::device::host()};
  echo_kernel::report got;
  run(nullptr, {.out = &got, .size = 127});
  CHECK(int{got.i8} == 127);
  const auto problem = sy::test::error_of<sy::call_error>([&] { run(nullptr, {.out = &got, .size = 128}); });
  CHECK(problem.code() == sy::error_code::evaluation_failed);
  CHECK_THAT(problem.what(), has_text("would be 128") && has_text("'all'") && has_text("size=128"));
}

TEST_CASE("a 64-bit argument that does not fit a 32-bit parameter is an error of this call alone") {
  const disk files;
  json variant = echo_variant("");
  variant["launches"][0]["parameters"][5] = {{"i32", "i64"}};
  SECTION("where no other variant serves") {
    files.put_manifest("echo", {variant});
    disk_dispatcher<echo> run{files, sy::device::host()};
    echo_kernel::report got;
    for (const std::int64_t fits : {std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}}) {
      run(nullptr, {.i64 = fits, .out = &got});
      CHECK(std::int64_t{got.i32} == fits);
      CHECK_THROWS_WITH(run(nullptr, {.i64 = 0x8000'0000, .out = &got}),
                        has_text("would be 2147483648") && has_text("'all'"));
      CHECK(std::int64_t{got.i32} == fits);  // nothing was launched
    }
  }
  SECTION("else the next one runs") {
    json next = echo_variant("");
    next["id"] = "next";
    next["launches"][0]["parameters"][5] = {{"i32", 3}};
    files.put_manifest("echo", {variant, next});
    disk_dispatcher<echo> run{files, sy::device::host()};
    echo_kernel::report got;
    for (int round = 0; round < 2; ++round) {
      run(nullptr, {.i64 = 5, .out = &got});
      CHECK(got.i32 == 5);
      run(nullptr, {.i64 = 0x8000'0000, .out = &got});
      CHECK(got.i32 == 3);
    }
  }
}

TEST_CASE("an expression that overflows or divides by zero at a call is an error") {
  const disk files;
  json variant = echo_variant("");
  variant["launches"][0]["parameters"][7] = {{"i64", "i64 * 2 / i32"}};
  files.put_manifest("echo", {variant});
  disk_dispatcher<echo> run{files, sy::device::host()};
  echo_kernel::report got;
  run(nullptr, {.i32 = 2, .i64 = 21, .out = &got});
  CHECK(got.i64 == 21);
  CHECK_THROWS_WITH(run(nullptr, {.i32 = 0, .i64 = 21, .out = &got}), has_text("divides by zero"));
  CHECK_THROWS_WITH(run(nullptr, {.i32 = 1, .i64 = INT64_MAX, .out = &got}), has_text("overflows 64 bits"));
  run(nullptr, {.i32 = 3, .i64 = 21, .out = &got});
  CHECK(got.i64 == 14);
}

TEST_CASE("a by-value struct has the alignment that its manifest asks for") {
  const bool late = GENERATE(false, true);
  const disk files;
  // Several members in front move a struct whose image is aligned to 16 only.
  files.put_manifest(
      "echo", {{{"id", "wide"},
                {"launches",
                 {{{"blob", "echo.so"},
                   {"kernel", "echo_wide"},
                   {"parameters",
                    {"out", {{"struct", {{{"i32", late ? "size + i32" : "size"}}}}, {"align", 64}}}}}}}}});
  disk_dispatcher<echo> run{files, sy::device::host()};
  for (std::int64_t size = 1; size < 40; ++size) {
    echo_kernel::report got;
    run(nullptr, {.out = &got, .size = size});
    REQUIRE(got.wide_value == size);
    REQUIRE(got.wide_misalignment == 0);
  }
}

TEST_CASE("the host refuses tensor maps, and says so") {
  const disk files{"echo",
                   {{{"id", "map"},
                     {"launches",
                      {{{"blob", "echo.so"},
                        {"kernel", "take_tensor_map"},
                        {"parameters",
                         {"out",
                          {{"tensor_map",
                            {{"of", "pointer"},
                             {"dtype", "f16"},
                             {"extents", {64, "size"}},
                             {"strides", {128}},
                             {"box", {64, 8}},
                             {"swizzle", "128B"}}}}}}}}}}}};
  disk_dispatcher<echo> run{files, sy::device::host()};
  echo_kernel::report got;
  const auto problem = sy::test::error_of<sy::driver_error>([&] { run(nullptr, {.out = &got, .size = 8}); });
  CHECK(problem.code() == sy::error_code::launch_failed);
  CHECK_THAT(problem.what(), has_text("take_tensor_map") && has_text("the host backend has no tensor maps"));
}

TEST_CASE("a grid may come from the call, and may be empty") {
  const disk files;
  const json variant{{"id", "grid"},
                     {"launches",
                      {{{"blob", "arithmetic.so"},
                        {"kernel", "locate_blocks"},
                        {"grid", {"blocks", "batch", "seqlen"}},
                        {"parameters", {"out"}}}}}};
  files.put_manifest("stamp", {variant});
  const auto driver = std::make_shared<faulty_driver>("", 3);
  disk_dispatcher<stamp> run{files, sy::device{driver}};
  std::vector<std::int64_t> out(24, -1);
  auto* address = reinterpret_cast<std::int32_t*>(out.data());
  for (std::int64_t x = 4; x >= 2; --x) {
    run(nullptr, {.out = address, .batch = 3, .seqlen = 2, .blocks = x});
    for (std::int64_t i = 0; i < x * 3 * 2; ++i) {
      REQUIRE(out[static_cast<std::size_t>(i)] == i % x + 1000 * (i / x % 3) + 1000000 * (i / x / 3));
    }
  }
  CHECK(driver->launches == 3);
  run(nullptr, {.out = address, .batch = 3, .seqlen = 2, .blocks = 0});
  run(nullptr, {.out = address, .batch = 0, .seqlen = 2, .blocks = 5});
  CHECK(driver->launches == 3);
  CHECK_THROWS_WITH(run(nullptr, {.out = address, .batch = 3, .seqlen = 2, .blocks = -1}),
                    has_text("the grid would be -1"));
  CHECK_THROWS_WITH(run(nullptr, {.out = address, .batch = 1, .seqlen = 1, .blocks = std::int64_t{1} << 32}),
                    has_text("the grid would be 4294967296"));
}

TEST_CASE("an empty grid known at plan time starts nothing") {
  const disk files;
  json variant = axpy_variant("b64", 64);
  files.put_manifest("axpy", {variant});
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<axpy> run{files, sy::device{driver}};
  const std::vector<float> x(1);
  std::vector<float> y(1, 3.0F);
  for (int i = 0; i < 2; ++i) run(nullptr, {.a = 1, .x = x.data(), .y = y.data(), .n = 0});
  CHECK(driver->launches == 0);
  CHECK(y[0] == 3.0F);
}

TEST_CASE("a block's shared memory is its own, and as large as the manifest says") {
  const disk files{"stamp",
                   {{{"id", "scratch"},
                     {"launches",
                      {{{"blob", "arithmetic.so"},
                        {"kernel", "use_scratch_bytes"},
                        {"grid", {"batch", 1, 1}},
                        {"shared_bytes", "seqlen * 100"},
                        {"parameters", {"out"}}}}}}}};
  disk_dispatcher<stamp> run{files, sy::device::host()};
  for (const std::int64_t batch : {1, 2, 50}) {
    for (const std::int64_t seqlen : {1, 77}) {
      std::vector<std::int64_t> out(static_cast<std::size_t>(batch), -1);
      run(nullptr, {.out = reinterpret_cast<std::int32_t*>(out.data()), .batch = batch, .seqlen = seqlen});
      for (const std::int64_t value : out) REQUIRE(value == seqlen * 100);
    }
  }
}

namespace {

json row_sum_variant() {
  return {{"id", "split"},
          {"config", {{"parts", 8}}},
          {"requires", {"n > 0"}},
          {"workspace", {{"other", "1"}, {"partial", "8 * parts"}}},
          {"launches",
           {{{"fill", "partial"}, {"byte", 0}},
            {{"fill", "other"}, {"byte", 255}},
            {{"blob", "arithmetic.so"},
             {"kernel", "add_parts_f32"},
             {"grid", {"parts", 1, 1}},
             {"parameters", {"x", "partial", "n", {{"i32", "parts"}}}}},
            {{"blob", "arithmetic.so"},
             {"kernel", "combine_f64"},
             {"parameters", {"partial", "out", {{"i32", "parts"}}}}}}}};
}

}  // namespace

TEST_CASE("a reduction of several launches, with fills and a workspace from the device") {
  const disk files{"row_sum", {row_sum_variant()}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<row_sum> run{files, sy::device{driver}};
  for (const std::int64_t n : {1, 5, 1000, 1000}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    std::iota(x.begin(), x.end(), 1.0F);
    double out = -1;
    run(nullptr, {.x = x.data(), .out = &out, .n = n});
    CHECK(out == static_cast<double>(n) * static_cast<double>(n + 1) / 2);
  }
  CHECK(driver->launches == 8);
  CHECK(driver->allocations == 4);
  CHECK(driver->releases == 4);

  driver->is_out_of_memory = true;
  const float x = 1;
  double out = -1;
  const auto problem =
      sy::test::error_of<sy::driver_error>([&] { run(nullptr, {.x = &x, .out = &out, .n = 1}); });
  CHECK(problem.code() == sy::error_code::out_of_memory);
  CHECK_THAT(problem.what(), has_text("512 bytes"));
  CHECK(out == -1);
}

TEST_CASE("a workspace from the caller is used, and refused when it is too small or misaligned") {
  const disk files{"row_sum", {row_sum_variant()}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<row_sum> run{files, sy::device{driver}};
  std::vector<float> x(100, 0.5F);
  double out = -1;
  const row_sum::arguments call{.x = x.data(), .out = &out, .n = 100};
  const std::size_t bytes = run.workspace_bytes(call);
  REQUIRE(bytes == 512);  // two buffers, each at a multiple of 256
  alignas(256) std::array<std::byte, 1024> memory{};
  memory.fill(std::byte{7});
  run(nullptr, call, {memory.data(), bytes});
  CHECK(out == 50);
  CHECK(driver->allocations == 0);
  CHECK(memory[0] == std::byte{255});    // "other"
  CHECK(memory[1] == std::byte{7});      // behind it
  CHECK(memory[bytes] == std::byte{7});  // behind them all
  CHECK(run.workspace_bytes(call) == 512);

  const auto refused = [&](sy::workspace given) {
    const auto problem = sy::test::error_of<sy::call_error>([&] { run(nullptr, call, given); });
    CHECK(problem.code() == sy::error_code::invalid_argument);
    CHECK_THAT(problem.what(), has_text("512, aligned to 256") && has_text("workspace_bytes()"));
  };
  refused({memory.data(), bytes - 1});
  refused({memory.data() + 128, bytes});
}

TEST_CASE("what the device refuses is an error with kernel, grid and status") {
  const disk files{"axpy", {axpy_variant("b64", 64)}};
  const auto driver = std::make_shared<faulty_driver>();
  disk_dispatcher<axpy> run{files, sy::device{driver}};
  const std::vector<float> x(100);
  std::vector<float> y(100);
  const axpy::arguments call{.a = 1, .x = x.data(), .y = y.data(), .n = 100};
  for (int i = 0; i < 2; ++i) {  // a new problem, then a known one
    driver->launch_status = 719;
    const auto problem = sy::test::error_of<sy::driver_error>([&] { run(nullptr, call); });
    CHECK(problem.code() == sy::error_code::launch_failed);
    CHECK_THAT(problem.what(),
               has_text("axpy_f32") && has_text("2x1x1") && has_text("status 719") && has_text("n=100"));
  }
  driver->launch_status = 0;
  run(nullptr, call);
}
