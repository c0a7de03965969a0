// SPDX-License-Identifier: MIT
// The instructions of warm calls of every shipped operator, as callgrind counts them: over the fake driver,
// so that what is counted besides the driver's entry points is the library.
//
//   valgrind --tool=callgrind --callgrind-out-file=FILE operator_instructions FOLDER [OPERATOR]
//
// FOLDER has the built kernels' manifests. Each distinct list of launches is taken once. A call changes every
// pointer; four problems and two sets of strides alternate. Two parts a list are dumped: `dispatched` and
// `bare`, the same calls of the driver's entry points with parameters that lie ready.
// operator_instructions.py reads them.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <valgrind/callgrind.h>
#include <vector>

#include "../cuda/fake_files.hpp"
#include "../cuda/sample_calls.hpp"

namespace {

using namespace fake_cuda;
using namespace sample_calls;
namespace operators = sy::operators;
namespace cuda = sy::cuda;

constexpr int calls_counted = 1600;

/// The eight calls that alternate.
template <class Operator>
class calls {
 public:
  explicit calls(const call_kind& kind) {
    for (int i = 0; i < 8; ++i) {
      auto& call = all_[static_cast<std::size_t>(i)];
      call = sample<Operator>::make(i % 4, i / 4, kind);
      place_tensors<Operator>(call, memory.data(), 1024, [&](std::uint32_t offset) {
        if (i == 0) given_.push_back(offset);
      });
    }
  }

  /// Call number i, whose pointers all differ from the call before.
  const typename Operator::arguments& next(int i) {
    auto& call = all_[static_cast<std::size_t>(i) % 8];
    for (const std::uint32_t offset : given_) {
      auto* const at = reinterpret_cast<std::byte*>(&call) + offset;
      std::uintptr_t address = 0;
      __builtin_memcpy(&address, at, sizeof address);
      address ^= 256;
      __builtin_memcpy(at, &address, sizeof address);
    }
    asm volatile("" : : "r"(&call) : "memory");
    return call;
  }

 private:
  std::array<typename Operator::arguments, 8> all_{};
  std::vector<std::uint32_t> given_;
};

alignas(256) std::array<std::byte, 256> small_workspace;

/// A workspace that suffices for anything: the kernels do not run.
constexpr sy::workspace any_workspace() {
  return {small_workspace.data(), std::size_t{1} << 46};
}

template <class Operator>
[[gnu::noinline]] void dispatch(sy::dispatcher<Operator>& on, sy::stream launch_stream, calls<Operator>& made,
                                int count) {
  for (int i = 0; i < count; ++i) on(launch_stream, made.next(i), any_workspace());
}

/// The driver's entry points: launches with attributes have another one, whose stand-in takes longer.
struct entry_points {
  decltype(cuda::api{}.launch_kernel) start = nullptr;
  decltype(cuda::api{}.launch_kernel_ex) start_with_attributes = nullptr;
  decltype(cuda::api{}.memset_d8_async) fill = nullptr;
};

/// Whether the backend starts a launch of a manifest with attributes.
bool has_attributes(const json& launch) {
  for (const char* const flag : {"cooperative", "programmatic_dependent_launch"}) {
    if (launch.value(flag, false)) return true;
  }
  const json cluster = launch.value("cluster", json::array());
  for (const json& extent : cluster) {
    if (extent != 1) return true;
  }
  return false;
}

template <class Operator>
[[gnu::noinline]] void launch_bare(const std::vector<json>& launches, entry_points entry, void* function,
                                   sy::stream launch_stream, calls<Operator>& made, int count) {
  std::array<void*, sy::max_parameters> parameters{};
  auto* const kernel = static_cast<CUfunc_st*>(function);
  auto* const stream = static_cast<CUstream_st*>(launch_stream);
  std::size_t plain = 0;
  std::size_t attributed = 0;
  std::size_t fills = 0;
  for (const json& launch : launches)
    ++(launch.contains("fill") ? fills : has_attributes(launch) ? attributed : plain);
  std::array<cuda::launch_attribute, 1> attributes;
  attributes[0].id = cuda::launch_attribute_id::programmatic_stream_serialization;
  attributes[0].value.flag = 1;
  const cuda::launch_config config{1, 1, 1, 32, 1, 1, 0, stream, attributes.data(), 1};
  for (int i = 0; i < count; ++i) {
    (void)made.next(i);
    for (std::size_t fill = 0; fill < fills; ++fill) {
      if (entry.fill(reinterpret_cast<std::uintptr_t>(small_workspace.data()), 0, 4, stream) != 0)
        std::abort();
    }
    for (std::size_t launch = 0; launch < plain; ++launch) {
      if (entry.start(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters.data(), nullptr) != 0) std::abort();
    }
    for (std::size_t launch = 0; launch < attributed; ++launch) {
      if (entry.start_with_attributes(&config, kernel, parameters.data(), nullptr) != 0) std::abort();
    }
  }
}

bool any_failed = false;

/// Counts one list of launches of one operator.
template <class Operator>
void count(const std::string& name, json variant, const std::vector<std::string>& conditions = {}) {
  const std::size_t launches = variant["launches"].size();
  const json type = variant.value("type", json::object());
  const call_kind kind{.narrow_keys = type.value("kv_dtype", "") == "f8_e4m3",
                       .rotary_apart = type.value("rotary_apart", false)};
  variant["id"] = "only";
  for (const char* const key : {"type", "requires", "cost", "cost_us"}) variant.erase(key);
  if (!conditions.empty()) variant["requires"] = conditions;
  if (kind.rotary_apart) variant["type"] = {{"rotary_apart", true}};
  if (kind.narrow_keys) variant["requires"] = {"kv_dtype == f8_e4m3"};
  for (json& launch : variant["launches"]) {
    if (launch.contains("fill")) continue;
    launch["kernel"] = "untold";
    launch["block"] = {32, 1, 1};
    launch.erase("shared_bytes");
  }
  const fake_files files{Operator::name, {variant}};
  sy::catalog catalog{files.options()};
  const sy::device device = fake_device(0);
  sy::dispatcher<Operator> on{catalog, device};
  const fake_stream own{primary(0)};
  set_current(primary(0));
  calls<Operator> made{kind};
  try {
    dispatch(on, own.get(), made, 64);  // each of them several times
  } catch (const sy::error& problem) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), problem.what());
    any_failed = true;
    return;
  }
  const std::string text = ".version 8.0\n.target sm_80\n";
  auto& driver = *device.driver();
  const auto module = driver.load(std::as_bytes(std::span{text}), "bare");
  const auto function = driver.find(module, "take_8");
  entry_points entry;
  entry.start = reinterpret_cast<decltype(entry.start)>(fake<void*>("fake_cuda_launch_kernel"));
  entry.start_with_attributes =
      reinterpret_cast<decltype(entry.start_with_attributes)>(fake<void*>("fake_cuda_launch_kernel_ex"));
  const auto measure = [&](const char* part, const auto& work) {
    const std::string label = name + " " + part + " " + std::to_string(launches);
    CALLGRIND_ZERO_STATS;
    work();
    CALLGRIND_DUMP_STATS_AT(label.c_str());
  };
  entry.fill = reinterpret_cast<decltype(entry.fill)>(fake<void*>("fake_cuda_memset"));
  measure("dispatched", [&] { dispatch(on, own.get(), made, calls_counted); });
  measure("bare", [&] {
    launch_bare(variant["launches"].template get<std::vector<json>>(), entry, function, own.get(), made,
                calls_counted);
  });
  driver.unload(module);
}

/// Every distinct list of launches that an operator's manifests have.
template <class Operator>
void count_all(const std::filesystem::path& folder, std::string_view wanted) {
  if (!wanted.empty() && wanted != Operator::name) return;
  std::set<std::string> seen;
  for (const auto& target : std::filesystem::directory_iterator{folder / Operator::name}) {
    if (target.path().filename().string().starts_with("host")) continue;
    std::ifstream in{target.path() / "manifest.json"};
    if (!in) continue;
    const json manifest = json::parse(in);
    const json shared = manifest.value("shared", json::object());
    for (const json& entry : manifest["variants"]) {
      json variant = inherit(entry, shared);
      json shape = json::array();
      for (json& launch : variant["launches"]) {
        launch = inherit(launch, shared);
        json part;
        for (const char* const key : {"parameters", "grid", "cluster", "fill"}) {
          if (launch.contains(key)) part[key] = launch[key];
        }
        shape.push_back(part);
      }
      if (!seen.insert(shape.dump()).second) continue;
      count<Operator>(std::string{Operator::name} + " " + variant["id"].get<std::string>(), variant);
    }
  }
}

/// Fifty parameters, as of kernels for attention of other projects: all arguments but a few, and sizes as
/// 32-bit integers. Kernels for keys of q's type take no scales of them.
json fifty_parameters() {
  json parameters = json::array();
  for (const auto& field : sy::describe<operators::attention_forward>().fields) {
    if (field.name.starts_with("tokens")) continue;  // for tables
    if (field.name.find("v_dtype") != field.name.npos || field.name.find("_scale") != field.name.npos)
      continue;
    const bool narrow = field.name == "batch" || field.name == "page_size" || field.name == "mask" ||
                        std::string_view{field.name}.starts_with("head") ||
                        std::string_view{field.name}.starts_with("seqlen");
    parameters.push_back(narrow ? json{{"i32", field.name}} : json(field.name));
  }
  for (int i = 0; parameters.size() < 50; ++i) parameters.push_back(json{{"i32", 7}});
  return {{"launches", {{{"grid", {1, 1, 1}}, {"parameters", parameters}}}}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: operator_instructions FOLDER [OPERATOR]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const std::string_view wanted = argc > 2 ? argv[2] : "";
  if (wanted.empty() || wanted == "attention_forward") {
    count<operators::attention_forward>("attention_forward fifty", fifty_parameters());
    // Conditions on arguments, of which a call's plan depends too.
    count<operators::attention_forward>("attention_forward fifty_with_1_condition", fifty_parameters(),
                                        {"q_stride_head >= 0"});
    count<operators::attention_forward>(
        "attention_forward fifty_with_4_conditions", fifty_parameters(),
        {"q_stride_head >= 0", "k_stride_head >= 0", "v_stride_head >= 0", "out_stride_head >= 0"});
  }
  count_all<operators::attention_forward>(folder, wanted);
  count_all<operators::attention_backward>(folder, wanted);
  count_all<operators::attention_decode>(folder, wanted);
  count_all<operators::attention_dropout_mask>(folder, wanted);
  count_all<operators::rotary>(folder, wanted);
  count_all<operators::softmax>(folder, wanted);
  count_all<operators::softmax_backward>(folder, wanted);
  count_all<operators::rms_norm>(folder, wanted);
  count_all<operators::rms_norm_backward>(folder, wanted);
  count_all<operators::layer_norm>(folder, wanted);
  count_all<operators::layer_norm_backward>(folder, wanted);
  count_all<operators::gated_activation>(folder, wanted);
  count_all<operators::gated_activation_backward>(folder, wanted);
  return any_failed ? 1 : 0;
}
