// SPDX-License-Identifier: MIT
// Tensor maps that dispatchers encode and keep, over the fake driver, whose encoding is what was asked for.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fake_files.hpp"
#include "threads.hpp"

namespace {

using namespace fake_cuda;

/// Three matrices with strides of their own; rows and columns are axes, the rest only the call knows.
struct product {
  static constexpr std::string_view name = "product";
  struct arguments {
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
    std::int32_t stride_a = 64;
    std::int32_t offset_a = 0;
    std::int64_t stride_b = 64;
    std::int64_t stride_c = 64;
    std::int64_t rows = 16;
    std::int64_t columns = 64;
    std::uint8_t promotion = 0;
    std::uint8_t spare = 0;
    std::uint16_t step = 1;
    float alpha = 1;
  };
  static constexpr auto fields =
      sy::fields<&arguments::a, &arguments::b, &arguments::c, &arguments::stride_a, &arguments::offset_a,
                 &arguments::stride_b, &arguments::stride_c, &arguments::rows, &arguments::columns,
                 &arguments::spare, &arguments::step, &arguments::alpha>;
  static constexpr auto axes =
      sy::axes(sy::size_axis<&arguments::rows>(), sy::size_axis<&arguments::columns>());
};

json map_of(const std::string& pointer, const std::string& stride) {
  return {{"tensor_map",
           {{"of", pointer},
            {"dtype", "f32"},
            {"extents", {"columns", "rows"}},
            {"strides", {"4 * " + stride}},
            {"box", {32, 16}},
            {"element_strides", {1, "step"}},
            {"swizzle", "128B"}}}};
}

std::vector<json> variants(const std::vector<json>& parameters, const std::string& kernel) {
  return {{{"id", "only"}, {"launches", {{{"kernel", kernel}, {"parameters", parameters}}}}}};
}

std::vector<json> three_maps() {
  return variants(
      {map_of("a + offset_a", "stride_a"), map_of("b", "stride_b"), map_of("c", "stride_c"), "alpha"},
      "take_128_128_128_4");
}

using map_bytes = std::array<std::uint8_t, sy::tensor_map_bytes>;

/// What the driver makes of the call's matrix when it is asked anew.
map_bytes encoded(const void* address, std::int64_t stride, const product::arguments& call) {
  sy::tensor_map_request request;
  std::memcpy(&request.address, &address, sizeof address);
  request.rank = 2;
  request.element_type = 7;
  request.swizzle = 3;
  request.extents[0] = static_cast<std::uint64_t>(call.columns);
  request.extents[1] = static_cast<std::uint64_t>(call.rows);
  request.stride_bytes[0] = static_cast<std::uint64_t>(4 * stride);
  request.box[0] = 32;
  request.box[1] = 16;
  request.element_strides[0] = 1;
  request.element_strides[1] = call.step;
  alignas(64) map_bytes out{};
  if (fake_device(0).driver()->encode(request, out.data()) != 0) throw std::runtime_error{"not encoded"};
  return out;
}

/// The maps that the calling thread's last launch was given.
thread_local std::array<map_bytes, 3> given;

void take_maps(void** parameters) {
  for (std::size_t i = 0; i < given.size(); ++i) std::memcpy(given[i].data(), parameters[i], sizeof given[i]);
}

class watched {
 public:
  watched() { notes().on_launch = take_maps; }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  ~watched() { notes().on_launch = nullptr; }
};

bool arrived(const product::arguments& call) {
  return given[0] == encoded(static_cast<const std::byte*>(call.a) + call.offset_a, call.stride_a, call) &&
         given[1] == encoded(call.b, call.stride_b, call) && given[2] == encoded(call.c, call.stride_c, call);
}

template <class Work>
int encodings(const Work& work) {
  const int before = notes().encoded;
  work();
  return notes().encoded - before;
}

std::array<std::byte, 1 << 16> memory;

}  // namespace

TEST_CASE(
    "tensor maps are those of the arguments, whatever changes, and kept for arguments that come again") {
  const watched now;
  const fake_files files{"product", three_maps()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  const fake_stream stream{primary(0)};
  product::arguments call{.a = memory.data(), .b = memory.data() + 1024, .c = memory.data() + 2048};
  const auto once = [&] { return encodings([&] { run(stream.get(), call); }); };
  const auto check = [&] {
    CHECK(once() == 3);  // new arguments
    CHECK(arrived(call));
    CHECK(once() == 3);  // they came again: kept from now on
    CHECK(arrived(call));
    for (int i = 0; i < 3; ++i) {
      CHECK(once() == 0);
      CHECK(arrived(call));
    }
  };
  check();
  const product::arguments original = call;
  call.a = memory.data() + 4096;
  check();
  call.b = call.c;
  check();
  call.c = memory.data() + 8192;
  check();
  call.stride_a = 65;
  check();
  call.offset_a = 16;
  check();
  call.stride_b = 1 << 20;
  check();
  call.stride_c = 68;
  check();
  call.step = 2;
  check();
  call.rows = 32;  // another plan
  check();
  std::swap(call.a, call.b);
  check();
  call = original;
  CHECK(once() == 0);  // still there
  CHECK(arrived(call));
  call.alpha = 3;  // and what no map reads changes nothing
  call.spare = 7;
  call.promotion = 9;
  CHECK(once() == 0);
  CHECK(arrived(call));
}

TEST_CASE("arguments that come but once leave nothing behind, and many are served") {
  const watched now;
  const fake_files files{"product", three_maps()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  const fake_stream stream{primary(0)};
  const auto call_of = [](std::size_t i) {
    return product::arguments{.a = memory.data() + 16 * (i % 4096),
                              .b = memory.data(),
                              .c = memory.data(),
                              .stride_c = 64 + static_cast<std::int64_t>(i / 4096)};
  };
  // As many as a model has layers: all of them are kept after two rounds.
  for (int round = 0; round < 3; ++round) {
    const int count = encodings([&] {
      for (std::size_t i = 0; i < 80; ++i) {
        run(stream.get(), call_of(i));
        REQUIRE(given[0] == encoded(call_of(i).a, 64, call_of(i)));
        --notes().encoded;  // this comparison's
      }
    });
    if (round < 2) CHECK(count == 240);
    if (round == 2) CHECK(count <= 12);  // few where addresses happen to meet in one set
  }
  // Many more than are kept.
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 20'000; ++i) {
      const auto call = call_of(i);
      run(stream.get(), call);
      if (i % 97 == 0) CHECK(arrived(call));
    }
  }
}

TEST_CASE("tensor maps inside a struct, and beside values that only the call knows") {
  const watched now;
  const fake_files files{
      "product",
      variants({map_of("a + offset_a", "stride_a"),
                {{"struct", {map_of("b", "stride_b"), map_of("c", "stride_c"), {{"f32", "alpha * 2"}}}}},
                {{"f32", "alpha + step"}}},
               "take_128_320_4")};
  sy::catalog catalog{files.options()};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  static thread_local std::array<float, 2> scalars;
  notes().on_launch = [](void** parameters) {
    std::memcpy(given[0].data(), parameters[0], 128);
    std::memcpy(given[1].data(), parameters[1], 128);
    std::memcpy(given[2].data(), static_cast<std::byte*>(parameters[1]) + 128, 128);
    std::memcpy(&scalars[0], static_cast<std::byte*>(parameters[1]) + 256, 4);
    std::memcpy(&scalars[1], parameters[2], 4);
  };
  product::arguments call{.a = memory.data(), .b = memory.data() + 64, .c = memory.data() + 128};
  for (int i = 0; i < 6; ++i) {
    call.alpha = static_cast<float>(i);
    run({}, call);
    CHECK(arrived(call));
    CHECK(scalars == std::array{2 * call.alpha, call.alpha + 1});
  }
  CHECK(encodings([&] { run({}, call); }) == 0);
}

TEST_CASE("what is kept of a plan's launches is what each call would be given anew") {
  const json of_both = {{{"struct", {"tile", {{"i64", "stride_b + step"}}}}}, "alpha"};
  const json mapped = {map_of("c", "stride_c"), {{"struct", {"c", {{"i64", "stride_c * 2"}}}}}};
  const json last = {{{"i32", "offset_a + 1"}}};
  const json launches = {
      {{"kernel", "take_16_4"}, {"parameters", of_both}},
      {{"kernel", "take_16_4"}, {"parameters", of_both}, {"grid", {"stride_a - 63", 1, 1}}},
      {{"kernel", "take_128_16"}, {"parameters", mapped}},
      {{"kernel", "take_4"}, {"parameters", last}, {"grid", {"stride_a - 64", 1, 1}}},
  };
  const fake_files files{
      "product",
      {{{"id", "only"}, {"workspace", {{"before", "256"}, {"tile", "256"}}}, {"launches", launches}}}};
  sy::catalog catalog{files.options()};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  struct taken {
    int launches = 0;
    std::array<std::uint64_t, 2> tile{};
    std::array<std::int64_t, 2> step{};
    std::array<float, 2> alpha{};
    map_bytes map{};
    std::uint64_t c = 0;
    std::int64_t stride = 0;
    std::int32_t offset = 0;
  };
  static thread_local taken now;
  const watched watch;
  notes().on_launch = [](void** parameters) {
    const auto read = [&](std::size_t parameter, std::size_t offset, auto& to) {
      std::memcpy(&to, static_cast<const std::byte*>(parameters[parameter]) + offset, sizeof to);
    };
    const int launch = now.launches++;
    if (launch < 2) {
      const auto at = static_cast<std::size_t>(launch);
      read(0, 0, now.tile[at]);
      read(0, 8, now.step[at]);
      read(1, 0, now.alpha[at]);
    } else if (launch == 2) {
      read(0, 0, now.map);
      read(1, 0, now.c);
      read(1, 8, now.stride);
    } else {
      read(0, 0, now.offset);
    }
  };
  alignas(256) static std::array<std::byte, 1024> scratch;
  std::mt19937 random{switchyard::test::seed_or(5)};
  const auto one_of = [&](unsigned count) { return random() % count; };
  for (int i = 0; i < 4000; ++i) {
    const product::arguments call{.c = memory.data() + 64 * one_of(3),
                                  .stride_a = 64 + static_cast<std::int32_t>(one_of(2)),
                                  .offset_a = static_cast<std::int32_t>(one_of(3)),
                                  .stride_b = 64 + static_cast<std::int64_t>(one_of(2)),
                                  .stride_c = 64 + 4 * static_cast<std::int64_t>(one_of(2)),
                                  .rows = 16 + static_cast<std::int64_t>(one_of(2)),
                                  .step = static_cast<std::uint16_t>(1 + one_of(2)),
                                  .alpha = static_cast<float>(i)};
    const sy::workspace given_memory{scratch.data() + 256 * one_of(2), 512};
    now = {};
    run({}, call, given_memory);
    const auto tile = reinterpret_cast<std::uintptr_t>(given_memory.address) + 256;
    const std::int64_t step = call.stride_b + call.step;
    const bool is_started = call.stride_a > 64;
    CAPTURE(i);
    REQUIRE(now.launches == (is_started ? 4 : 3));
    REQUIRE(now.tile == std::array<std::uint64_t, 2>{tile, tile});
    REQUIRE(now.step == std::array<std::int64_t, 2>{step, step});
    REQUIRE(now.alpha == std::array<float, 2>{call.alpha, call.alpha});
    REQUIRE(now.map == encoded(call.c, call.stride_c, call));
    REQUIRE(now.c == reinterpret_cast<std::uintptr_t>(call.c));
    REQUIRE(now.stride == 2 * call.stride_c);
    REQUIRE(now.offset == (is_started ? call.offset_a + 1 : 0));
  }
}

TEST_CASE("a tensor map that cannot be encoded is an error each time") {
  const fake_files files{"product", three_maps()};
  sy::catalog catalog{files.options()};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  const product::arguments call{.a = memory.data(), .b = memory.data(), .c = memory.data()};
  for (int i = 0; i < 3; ++i) {
    const misbehaviour now{"no_maps"};
    CHECK_THROWS_WITH(run({}, call), has_text("switchyard.211"));
  }
  run({}, call);
}

TEST_CASE("threads with arguments of their own are given their own tensor maps") {
  const watched now;
  const fake_files files{"product", three_maps()};
  sy::catalog_options options = files.options();
  options.plan_capacity = 16;
  sy::catalog catalog{options};
  sy::dispatcher<product> run{catalog, fake_device(0)};
  std::atomic<int> wrong{0};
  switchyard::test::run_threads(8U, [&](unsigned t) {
    const fake_stream stream{primary(0)};
    std::mt19937 random{t};
    for (int i = 0; i < 20'000; ++i) {
      // Few rows of many, so that entries are found, made and displaced all the time.
      const product::arguments call{.a = memory.data() + 16 * (random() % 400),
                                    .b = memory.data() + 16 * (random() % 2),
                                    .c = memory.data() + std::size_t{t} * 64,
                                    .stride_b = 64 + static_cast<std::int64_t>(random() % 2),
                                    .rows = 16 + static_cast<std::int64_t>(random() % 20)};
      run(stream.get(), call);
      std::uint64_t address = 0;
      std::memcpy(&address, given[0].data(), sizeof address);
      if (address != reinterpret_cast<std::uintptr_t>(call.a)) ++wrong;
      if (i % 50 == 0 && !arrived(call)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}
