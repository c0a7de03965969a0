// SPDX-License-Identifier: MIT
// The numbers in tensors of indices are checked at every call of a CPU, before anything runs, and never read
// for a GPU.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/measuring/forwarding_driver.hpp>

#include "catch.hpp"
#include "test_disk.hpp"
#include "thrown.hpp"

namespace {

using namespace test;
using sy::operators::attention_forward;

/// A variant that takes every argument in order.
json plain_variant() {
  json names = json::array();
  for (const auto& field : sy::describe<attention_forward>().fields) names.push_back(std::string{field.name});
  return {{"id", "only"},
          {"launches",
           {{{"blob", "nothing.so"}, {"kernel", "nothing_attention_forward"}, {"parameters", names}}}}};
}

/// The same with a workspace that is filled first.
json variant_of_two_launches() {
  json out = plain_variant();
  out["workspace"] = {{"sums", 64}};
  out["launches"].insert(out["launches"].begin(), json{{"fill", "sums"}, {"byte", 0}});
  return out;
}

/// The same with a condition on arguments, which makes problems differ that have one key.
json conditional_variant() {
  json out = plain_variant();
  out["requires"] = {"dropout_seed == 0"};
  return out;
}

alignas(64) std::array<std::byte, 64> storage{};

/// Counts launches; may pretend to be a GPU.
class counting_driver final : public sy::tune::forwarding_driver {
 public:
  explicit counting_driver(bool is_gpu)
      : forwarding_driver{std::make_shared<sy::host::driver>(1)}, properties_{driver().properties()} {
    if (is_gpu) properties_.backend = "cuda", properties_.arch = "sm_90";
  }
  [[nodiscard]] const sy::device_properties& properties() const noexcept override { return properties_; }
  [[nodiscard]] sy::status launch(sy::function_handle function, const sy::launch_geometry& geometry,
                                  void** parameters, sy::stream on) noexcept override {
    ++launches;
    return driver().launch(function, geometry, parameters, on);
  }
  int launches = 0;

 private:
  sy::device_properties properties_;
};

struct prompt {
  std::array<std::int32_t, 3> cu{0, 3, 8};
  attention_forward::arguments call;
  prompt() {
    const sy::tensor q{storage.data(), sy::dtype::bf16, {8, 4, 128}};
    const sy::const_tensor lengths{cu.data(), sy::dtype::i32, {3}};
    call = attention_forward::call(
        q, q, q, q, {.cu_seqlens_q = lengths, .cu_seqlens_k = lengths, .longest_q = 5, .longest_k = 5});
  }
};

/// What a dispatcher says of a call; empty where it is launched.
std::string refusal(sy::dispatcher<attention_forward>& on, const attention_forward::arguments& call) {
  return sy::test::refusal_by<sy::call_error>(sy::error_code::invalid_argument, [&] { on({}, call); });
}

void check_every_call(const json& variant) {
  const disk files{"attention_forward", {variant}};
  const auto driver = std::make_shared<counting_driver>(false);
  disk_dispatcher<attention_forward> on{files, sy::device{driver}};
  prompt given;
  for (int round = 0; round < 3; ++round) {
    given.cu = {0, 3, 2};
    CHECK_THAT(refusal(on, given.call),
               has_text("[switchyard.301] attention_forward: cu_seqlens_q[2] is 2, less "
                        "than 3 before it: the numbers must not fall; called with "
                        "dtype=bf16"));
    CHECK(driver->launches == 2 * round);
    given.cu = {0, 3, 8};
    CHECK_THAT(refusal(on, given.call), no_text());
    CHECK_THAT(refusal(on, given.call), no_text());
    CHECK(driver->launches == 2 * round + 2);
  }
  given.cu = {7, 3, 2};
  on.prepare(given.call);  // the numbers may come later
  CHECK(on.workspace_bytes(given.call) < 1024);
}

}  // namespace

TEST_CASE("numbers in tensors of indices are checked at every call of a CPU") {
  check_every_call(plain_variant());
  check_every_call(variant_of_two_launches());
  check_every_call(conditional_variant());
}

TEST_CASE("numbers in tensors of indices are checked where a dispatcher serves every device") {
  const disk files{"attention_forward", {plain_variant()}};
  class router final : public sy::stream_router {
   public:
    [[nodiscard]] sy::device of(sy::stream /*on*/) override { return sy::device::host(); }
    [[nodiscard]] std::uintptr_t key(sy::stream /*on*/) noexcept override { return 1; }
    [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return true; }
  };
  sy::catalog_options options = files.options();
  options.streams = std::make_shared<router>();
  sy::catalog catalog{options};
  sy::dispatcher<attention_forward> on{catalog};
  prompt given;
  CHECK_THAT(refusal(on, given.call), no_text());
  given.cu = {1, 3, 8};
  CHECK_THAT(refusal(on, given.call), has_text("cu_seqlens_q[0] is 1: it must be 0"));
}

TEST_CASE("a GPU's call reads no numbers of tensors of indices") {
  const disk files{"attention_forward", {plain_variant()}};
  json manifest = json::parse(read_text(files.manifest_path("attention_forward")));
  manifest["target"] = {{"backend", "cuda"}, {"arch", "sm_90"}};
  files.write(files.manifest_path("attention_forward"), manifest.dump());
  const auto driver = std::make_shared<counting_driver>(true);
  disk_dispatcher<attention_forward> on{files, sy::device{driver}};
  prompt given;
  // Reading these would end the program.
  given.call.cu_seqlens_q = reinterpret_cast<const std::int32_t*>(std::uintptr_t{64});
  given.call.cu_seqlens_k = reinterpret_cast<const std::int32_t*>(std::uintptr_t{128});
  CHECK_THAT(refusal(on, given.call), no_text());
  CHECK_THAT(refusal(on, given.call), no_text());
  CHECK(driver->launches == 2);
}
