// SPDX-License-Identifier: MIT
// Makes N launches in one of several ways, for an instruction counter: over the fake driver, so that what is
// counted besides the driver's entry point is the library.
//
//   launch_instructions count WHAT-HOW N      WHAT: sixteen, maps; HOW: bare, bound, routed; bare_null,
//   routed_null
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../cuda/fake_files.hpp"
#include "../kernels_for_tests/nothing.hpp"

namespace {

using namespace fake_cuda;

using test::nothing;

std::vector<json> nothing_variants() {
  json names = json::array();
  std::string kernel = "take";
  for (const auto& field : sy::describe<nothing>().fields) {
    names.push_back(field.name);
    kernel += "_" + std::to_string(sy::size_of(field.kind));
  }
  return {{{"id", "all"}, {"launches", {{{"kernel", kernel}, {"parameters", names}}}}}};
}

/// Attention's four tensors as tensor maps, each with three strides of the call, and four scalars.
struct maps {
  static constexpr std::string_view name = "maps";
  struct arguments {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* out = nullptr;
    std::int64_t q_batch = 1 << 20, q_token = 4096, q_head = 128;
    std::int64_t k_batch = 1 << 18, k_token = 1024, k_head = 128;
    std::int64_t v_batch = 1 << 18, v_token = 1024, v_head = 128;
    std::int64_t out_batch = 1 << 20, out_token = 4096, out_head = 128;
    float scale = 1;
    std::int32_t window = 0;
    std::int64_t batch = 2, heads = 32, seqlen_q = 1024, seqlen_k = 1024;
  };
  static constexpr auto fields =
      sy::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::q_batch,
                 &arguments::q_token, &arguments::q_head, &arguments::k_batch, &arguments::k_token,
                 &arguments::k_head, &arguments::v_batch, &arguments::v_token, &arguments::v_head,
                 &arguments::out_batch, &arguments::out_token, &arguments::out_head, &arguments::scale,
                 &arguments::window, &arguments::seqlen_q, &arguments::seqlen_k>;
  static constexpr auto axes =
      sy::axes(sy::size_axis<&arguments::batch>(), sy::size_axis<&arguments::heads>(),
               sy::size_axis<&arguments::seqlen_q>(), sy::size_axis<&arguments::seqlen_k>());
};

std::vector<json> maps_variants() {
  json parameters = json::array();
  for (const std::string tensor : {"q", "k", "v", "out"}) {
    const bool is_query = tensor == "q" || tensor == "out";
    parameters.push_back(
        {{"tensor_map",
          {{"of", tensor},
           {"dtype", "f16"},
           {"extents", {"128", is_query ? "seqlen_q" : "seqlen_k", "heads", "batch"}},
           {"strides", {"2 * " + tensor + "_token", "2 * " + tensor + "_head", "2 * " + tensor + "_batch"}},
           {"box", {64, 128, 1, 1}},
           {"swizzle", "128B"}}}});
  }
  for (const char* name : {"scale", "window", "seqlen_q", "seqlen_k"}) parameters.push_back(name);
  return {{{"id", "all"},
           {"launches", {{{"kernel", "take_128_128_128_128_4_4_8_8"}, {"parameters", parameters}}}}}};
}

/// Whether every launch was taken.
template <class Operator>
[[nodiscard]] bool count(const std::vector<json>& variants, typename Operator::arguments call,
                         std::string_view how, std::int64_t calls) {
  const fake_files files{Operator::name, variants};
  sy::catalog catalog{files.options()};
  const sy::device first = fake_device(0);
  sy::dispatcher<Operator> bound{catalog, first};
  sy::dispatcher<Operator> routed{catalog};
  const fake_stream own{primary(0)};
  const sy::stream stream = how.ends_with("_null") ? sy::stream{} : own.get();
  set_current(primary(0));
  for (int i = 0; i < 3; ++i) {
    bound(stream, call);
    routed(stream, call);
  }
  const std::string text = ".version 8.0\n.target sm_80\n";
  sy::device_driver& driver = *first.driver();
  const auto module = driver.load(std::as_bytes(std::span{text}), "bare");
  const auto function = driver.find(module, "take_8");
  const sy::launch_geometry geometry{.grid = {1}, .block = {32}};
  std::array<void*, 16> parameters{};
  int failures = 0;
  const auto repeat = [&](const auto& work) {
    for (std::int64_t i = 0; i < calls; ++i) {
      asm volatile("" : : "r"(&call) : "memory");  // the arguments must be taken for changed
      work();
    }
  };
  if (how.starts_with("bare")) {
    repeat([&] { failures += driver.launch(function, geometry, parameters.data(), stream); });
  } else if (how == "bound") {
    repeat([&] { bound(stream, call); });
  } else {
    repeat([&] { routed(stream, call); });
  }
  driver.unload(module);
  return failures == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view counted = argc == 4 ? argv[2] : "";
  const std::size_t dash = counted.find('-');
  if (dash == std::string_view::npos) {
    std::fprintf(stderr, "usage: launch_instructions count WHAT-HOW N\n");
    return 2;
  }
  const std::int64_t calls = std::strtoll(argv[3], nullptr, 10);
  const std::string_view how = counted.substr(dash + 1);
  bool good = false;
  if (counted.substr(0, dash) == "maps") {
    alignas(256) static std::array<std::byte, 1024> memory;
    std::byte* const at = memory.data();
    good = count<maps>(maps_variants(), {.q = at, .k = at + 256, .v = at + 512, .out = at + 768}, how, calls);
  } else {
    good = count<nothing>(nothing_variants(), nothing::call(), how, calls);
  }
  return good ? 0 : 1;
}
