// SPDX-License-Identifier: MIT
// Calls that follow others: whatever a dispatcher keeps, each launch gets the parameters that a fresh
// dispatcher gives it. Of every shipped kernel for CUDA, over the fake driver: the calls of a sequence differ
// in some of their addresses, strides and scales, and in the workspace, which no axis tells apart.
// SWITCHYARD_TEST_SEED says which sequence; SWITCHYARD_PATH has the manifests.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "environment.hpp"
#include "fake_files.hpp"
#include "sample_calls.hpp"

namespace {

using namespace fake_cuda;
using namespace sample_calls;

/// The parameters of a call's launches, one after the other.
struct launched {
  std::vector<std::vector<std::size_t>> sizes;  ///< of each launch's parameters
  std::size_t launches = 0;
  std::vector<std::byte> bytes;
};
thread_local launched* taken = nullptr;

void take(void** parameters) {
  const std::vector<std::size_t>& sizes = taken->sizes.at(taken->launches++);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto* const from = static_cast<const std::byte*>(parameters[i]);
    taken->bytes.insert(taken->bytes.end(), from, from + sizes[i]);
  }
}

/// A variant as the only one, of a kernel that does not tell its parameters. It serves any call, but for
/// those that variants serve only if they say so.
json alone(json variant, const json& shared) {
  const json type = variant.value("type", json::object());
  for (json& launch : variant["launches"]) {
    launch = inherit(launch, shared);
    if (launch.contains("fill")) continue;
    launch["kernel"] = "untold";
    launch["block"] = {32, 1, 1};
    launch.erase("shared_bytes");
  }
  variant["id"] = "only";
  for (const char* const key : {"type", "requires", "cost", "cost_us", "cost_ns"}) variant.erase(key);
  for (const char* const form : {"block_masked", "rotary_apart"}) {
    if (type.value(form, false)) variant["type"] = {{form, true}};
  }
  if (type.value("kv_dtype", "") == "f8_e4m3") variant["requires"] = {"kv_dtype == f8_e4m3"};
  return variant;
}

/// A dispatcher of its own, with its catalog.
template <class Operator>
class server {
 public:
  explicit server(const fake_files& files) : catalog_{files.options()}, on_{catalog_, fake_device(0)} {
    for (const auto& manifest : catalog_.files(sy::describe<Operator>()).manifests) {
      for (const sy::launch& launch : manifest->variants.at(0).launches) {
        if (launch.is_fill) continue;
        auto& sizes = sizes_.emplace_back();
        for (const sy::parameter& formal : launch.parameters) sizes.push_back(formal.bytes);
      }
    }
  }

  /// The bytes that a call's launches are given.
  [[nodiscard]] std::vector<std::byte> call(sy::stream launch_stream,
                                            const typename Operator::arguments& with,
                                            std::uintptr_t workspace) {
    launched now{sizes_, 0, {}};
    taken = &now;
    notes().on_launch = take;
    on_(launch_stream, with, {reinterpret_cast<void*>(workspace), std::size_t{1} << 46});  // no kernel runs
    notes().on_launch = nullptr;
    return now.bytes;
  }

 private:
  sy::catalog catalog_;
  sy::dispatcher<Operator> on_;
  std::vector<std::vector<std::size_t>> sizes_;
};

/// A call that follows another one: some of its addresses, strides and scales differ.
template <class Operator>
typename Operator::arguments changed(const typename Operator::arguments& before, std::mt19937& random) {
  auto out = before;
  std::vector<sy::field_description> fields;
  for (const auto& field : sy::describe<Operator>().fields) {
    if (field.kind == sy::value_kind::pointer || field.name.find("stride") != field.name.npos ||
        field.name == "scale")
      fields.push_back(field);
  }
  const std::size_t count = 1 + random() % 3;
  for (std::size_t n = 0; n < count; ++n) {
    const sy::field_description& field = fields[random() % fields.size()];
    std::byte* const at = reinterpret_cast<std::byte*>(&out) + field.offset;
    if (field.kind == sy::value_kind::f32) {
      const float scale = 0.25F * static_cast<float>(1 + random() % 4);
      std::memcpy(at, &scale, sizeof scale);
      continue;
    }
    std::int64_t value = 0;
    std::memcpy(&value, at, 8);
    if (field.name.find("scale_stride") != field.name.npos) {
      value ^= 1;             // one scale for all heads, or one each
    } else if (value != 0) {  // there is a tensor
      value ^= field.kind == sy::value_kind::pointer ? 4096 : 1024 << random() % 2;
    }
    std::memcpy(at, &value, 8);
  }
  keep_latent(out);
  return out;
}

/// A call that a variant of this type serves.
template <class Operator>
typename Operator::arguments sample_of(const json& type) {
  const call_kind kind{.narrow_keys = type.value("kv_dtype", "") == "f8_e4m3",
                       .block_masked = type.value("block_masked", false),
                       .rotary_apart = type.value("rotary_apart", false)};
  typename Operator::arguments out = sample<Operator>::make(1, 0, kind);
  place_tensors<Operator>(out, reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40U), 1 << 20,
                          [](std::uint32_t /*offset*/) {});
  return out;
}

template <class Operator>
void try_all(std::mt19937& random) {
  const std::filesystem::path folder =
      std::filesystem::path{sy::test::required_variable("SWITCHYARD_PATH")} / "kernels" / Operator::name;
  if (!std::filesystem::exists(folder)) return;
  const fake_stream own{primary(0)};
  set_current(primary(0));
  std::set<std::string> seen;
  std::size_t tried = 0;
  std::size_t calls = 0;
  for (const auto& target : std::filesystem::directory_iterator{folder}) {
    if (!target.path().filename().string().starts_with("cuda")) continue;
    std::ifstream in{target.path() / "manifest.json"};
    const json manifest = json::parse(in);
    const json shared = manifest.value("shared", json::object());
    for (const json& entry : manifest["variants"]) {
      const json whole = inherit(entry, shared);
      const json variant = alone(whole, shared);
      if (!seen.insert(variant["launches"].dump()).second) continue;
      ++tried;
      const fake_files files{Operator::name, {variant}};
      auto first = sample_of<Operator>(whole.value("type", json::object()));
      server<Operator> warm{files};
      struct distinct {
        typename Operator::arguments call;
        std::uintptr_t workspace;
        std::vector<std::byte> wanted;
      };
      std::vector<distinct> all;
      for (std::size_t n = 0; n < 5; ++n) {
        if (n > 0) first = changed<Operator>(first, random);
        const std::uintptr_t workspace = (random() % 2 + 1) << 30U;
        all.push_back({first, workspace, server<Operator>{files}.call(own.get(), first, workspace)});
      }
      std::size_t wrong = 0;
      for (std::size_t n = 0; n < 40; ++n) {
        const distinct& now = all[random() % all.size()];
        wrong += warm.call(own.get(), now.call, now.workspace) == now.wanted ? 0U : 1U;
        ++calls;
      }
      INFO(Operator::name << " " << entry["id"].get<std::string>() << " of " << target.path().filename());
      CHECK(wrong == 0);
    }
  }
  std::printf("%s: %zu lists of launches, %zu calls\n", std::string{Operator::name}.c_str(), tried, calls);
}

TEMPLATE_TEST_CASE("a call gets its own parameters, whatever was called before", "[cuda]",
                   operators::attention_forward, operators::attention_backward, operators::attention_decode,
                   operators::rotary, operators::softmax, operators::softmax_backward, operators::rms_norm,
                   operators::rms_norm_backward, operators::layer_norm, operators::layer_norm_backward,
                   operators::gated_activation, operators::gated_activation_backward) {
  std::mt19937 random{sy::test::fresh_seed()};
  try_all<TestType>(random);
}

}  // namespace
