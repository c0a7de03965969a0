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
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <valgrind/callgrind.h>
#include <vector>

#include "../cuda/fake_files.hpp"

namespace {

using namespace fake_cuda;
namespace operators = sy::operators;
namespace cuda = sy::cuda;

constexpr int calls_counted = 1600;

/// What calls point to. Aligned like allocations of a GPU.
alignas(4096) std::array<std::byte, 1 << 16> memory;

// Calls as engines make them: problem 0 to 3, strides 0 or 1.

template <class Arguments>
void set_row_sizes(Arguments& call, int problem) {
  call.rows = 64 << problem;
  call.columns = 4096;
  call.dtype = sy::dtype::bf16;
}

template <class Operator>
struct sample;

template <>
struct sample<operators::softmax> {
  static void set(operators::softmax::arguments& call, int problem, int strides) {
    set_row_sizes(call, problem);
    call.x_stride_row = call.out_stride_row = 4096 + 64 * strides;
  }
};
template <>
struct sample<operators::softmax_backward> {
  static void set(operators::softmax_backward::arguments& call, int problem, int strides) {
    set_row_sizes(call, problem);
    call.grad_out_stride_row = call.out_stride_row = call.grad_x_stride_row = 4096 + 64 * strides;
  }
};
template <>
struct sample<operators::gated_activation> {
  static void set(operators::gated_activation::arguments& call, int problem, int strides) {
    set_row_sizes(call, problem);
    call.gate_stride_row = call.up_stride_row = call.out_stride_row = 4096 + 64 * strides;
  }
};
template <>
struct sample<operators::gated_activation_backward> {
  static void set(operators::gated_activation_backward::arguments& call, int problem, int strides) {
    set_row_sizes(call, problem);
    call.grad_out_stride_row = call.gate_stride_row = call.up_stride_row = 4096 + 64 * strides;
    call.grad_gate_stride_row = call.grad_up_stride_row = 4096 + 64 * strides;
  }
};
template <class Operator>
struct norm_sample {
  static void set(typename Operator::arguments& call, int problem, int strides) {
    set_row_sizes(call, problem);
    call.gamma_dtype = sy::dtype::bf16;
    const std::int64_t stride = 4096 + 64 * strides;
    if constexpr (requires { call.grad_x; }) {
      call.grad_out_stride_row = call.h_stride_row = call.grad_residual_stride_row = stride;
      call.grad_x_stride_row = stride;
    } else {
      call.x_stride_row = call.residual_stride_row = stride;
      call.out_stride_row = call.residual_out_stride_row = stride;
    }
  }
};
template <>
struct sample<operators::layer_norm> : norm_sample<operators::layer_norm> {};
template <>
struct sample<operators::layer_norm_backward> : norm_sample<operators::layer_norm_backward> {};
template <>
struct sample<operators::rms_norm> : norm_sample<operators::rms_norm> {};
template <>
struct sample<operators::rms_norm_backward> : norm_sample<operators::rms_norm_backward> {};

template <>
struct sample<operators::rotary> {
  static void set(operators::rotary::arguments& call, int problem, int strides) {
    call.positions = nullptr;
    call.cu_seqlens = nullptr;
    call.sequence_offsets = nullptr;
    call.batch = 1 << problem;
    call.seqlen = 128;
    call.heads = 32;
    call.heads_kv = 8;
    call.head_dim = call.rotary_dim = 128;
    call.q_stride_head = call.q_out_stride_head = call.k_stride_head = call.k_out_stride_head = 128;
    call.q_stride_token = call.q_out_stride_token = (32 + strides) * 128;
    call.k_stride_token = call.k_out_stride_token = (8 + strides) * 128;
    call.q_stride_batch = call.q_out_stride_batch = 128 * call.q_stride_token;
    call.k_stride_batch = call.k_out_stride_batch = 128 * call.k_stride_token;
    call.table_stride = 64;
    call.dtype = sy::dtype::bf16;
  }
};

template <class Arguments>
void set_attention(Arguments& call, int problem, int strides) {
  call.batch = 1 << problem;
  call.heads = 32;
  call.heads_kv = 8;
  call.seqlen_q = 16;
  call.seqlen_k = 1024;
  call.head_dim = call.head_dim_v = 128;
  call.scale = 0.0884F;
  const std::int64_t q = (32 + strides) * 128;
  const std::int64_t kv = (8 + strides) * 128;
  call.q_stride_head = call.k_stride_head = call.v_stride_head = call.out_stride_head = 128;
  call.q_stride_token = call.out_stride_token = q;
  call.k_stride_token = call.v_stride_token = kv;
  call.q_stride_batch = call.out_stride_batch = call.seqlen_q * q;
  call.k_stride_batch = call.v_stride_batch = call.seqlen_k * kv;
  call.lse_stride_head = call.seqlen_q;
  call.lse_stride_batch = call.seqlen_q * call.heads;
  call.dtype = sy::dtype::bf16;
}

template <>
struct sample<operators::attention_forward> {
  static void set(operators::attention_forward::arguments& call, int problem, int strides) {
    call.bias = nullptr;
    call.alibi_slopes = call.sinks = nullptr;
    call.cu_seqlens_q = call.cu_seqlens_k = call.seqused_q = call.seqused_k = call.block_table = nullptr;
    call.dropout_state = nullptr;
    set_attention(call, problem, strides);
    call.mask = operators::attention_mask::causal_bottom_right;
  }
};
template <>
struct sample<operators::attention_decode> {
  static void set(operators::attention_decode::arguments& call, int problem, int strides) {
    call.k_scale = call.v_scale = call.alibi_slopes = call.sinks = nullptr;
    set_attention(call, problem, strides);
    call.kv_dtype = sy::dtype::bf16;
    call.page_size = 64;
    call.block_table_stride = 64 + strides;
  }
};
template <>
struct sample<operators::attention_backward> {
  static void set(operators::attention_backward::arguments& call, int problem, int strides) {
    call.bias = nullptr;
    call.alibi_slopes = nullptr;
    call.cu_seqlens_q = call.cu_seqlens_k = call.seqused_q = call.seqused_k = nullptr;
    call.dropout_state = nullptr;
    call.dbias = nullptr;
    set_attention(call, problem, strides);
    call.mask = operators::attention_mask::causal_bottom_right;
    call.dout_stride_head = call.dq_stride_head = call.dk_stride_head = call.dv_stride_head = 128;
    call.dout_stride_token = call.dq_stride_token = call.q_stride_token;
    call.dk_stride_token = call.dv_stride_token = call.k_stride_token;
    call.dout_stride_batch = call.dq_stride_batch = call.q_stride_batch;
    call.dk_stride_batch = call.dv_stride_batch = call.k_stride_batch;
  }
};
template <>
struct sample<operators::attention_dropout_mask> {
  static void set(operators::attention_dropout_mask::arguments& call, int problem, int /*strides*/) {
    call.batch = 1 << problem;
    call.heads = 32;
    call.seqlen_q = call.seqlen_k = 128;
    call.dropout_p = 0.5F;
  }
};

/// The eight calls that alternate.
template <class Operator>
class calls {
 public:
  calls() {
    for (int i = 0; i < 8; ++i) {
      auto& call = all_[static_cast<std::size_t>(i)];
      std::size_t place = 0;
      for (const auto& field : sy::describe<Operator>().fields) {
        if (field.kind != sy::value_kind::pointer) continue;
        void* const address = memory.data() + 1024 * place++;
        __builtin_memcpy(reinterpret_cast<std::byte*>(&call) + field.offset, &address, sizeof address);
      }
      sample<Operator>::set(call, i % 4, i / 4);
    }
    for (const auto& field : sy::describe<Operator>().fields) {
      std::uintptr_t address = 0;
      __builtin_memcpy(&address, reinterpret_cast<std::byte*>(&all_[0]) + field.offset, sizeof address);
      if (field.kind == sy::value_kind::pointer && address != 0) given_.push_back(field.offset);
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
[[gnu::noinline]] void dispatch(sy::dispatcher<Operator>& on, sy::stream launch_stream, calls<Operator>& each,
                                int count) {
  for (int i = 0; i < count; ++i) on(launch_stream, each.next(i), any_workspace());
}

/// The driver's entry points: launches with attributes have another one, whose stand-in takes longer.
struct entry_points {
  decltype(cuda::api{}.launch_kernel) start = nullptr;
  decltype(cuda::api{}.launch_kernel_ex) start_with_attributes = nullptr;
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
                                   sy::stream launch_stream, calls<Operator>& each, int count) {
  std::array<void*, sy::max_parameters> parameters{};
  auto* const kernel = static_cast<CUfunc_st*>(function);
  auto* const stream = static_cast<CUstream_st*>(launch_stream);
  std::size_t plain = 0;
  std::size_t attributed = 0;
  for (const json& launch : launches) {
    if (!launch.contains("fill")) ++(has_attributes(launch) ? attributed : plain);
  }
  std::array<cuda::launch_attribute, 1> attributes;
  attributes[0].id = cuda::launch_attribute_id::programmatic_stream_serialization;
  attributes[0].value.flag = 1;
  const cuda::launch_config config{1, 1, 1, 32, 1, 1, 0, stream, attributes.data(), 1};
  for (int i = 0; i < count; ++i) {
    (void)each.next(i);
    for (std::size_t launch = 0; launch < plain; ++launch) {
      if (entry.start(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters.data(), nullptr) != 0) std::abort();
    }
    for (std::size_t launch = 0; launch < attributed; ++launch) {
      if (entry.start_with_attributes(&config, kernel, parameters.data(), nullptr) != 0) std::abort();
    }
  }
}

/// An object of a manifest with what it takes over from a shared one.
json inherit(json own, const json& shared) {
  if (!own.contains("like")) return own;
  const std::string like = own["like"];
  own.erase("like");
  for (const auto& [key, value] : shared.at(like).items()) {
    if (!own.contains(key)) own[key] = value;
  }
  return own;
}

bool any_failed = false;

/// Counts one list of launches of one operator.
template <class Operator>
void count(const std::string& name, json variant) {
  const std::size_t launches = variant["launches"].size();
  variant["id"] = "only";
  for (const char* const each : {"type", "requires", "cost", "cost_us"}) variant.erase(each);
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
  calls<Operator> each;
  try {
    dispatch(on, own.get(), each, 24);
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
  measure("dispatched", [&] { dispatch(on, own.get(), each, calls_counted); });
  measure("bare", [&] {
    launch_bare(variant["launches"].template get<std::vector<json>>(), entry, function, own.get(), each,
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
    for (const json& each : manifest["variants"]) {
      json variant = inherit(each, shared);
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
/// 32-bit integers.
json fifty_parameters() {
  json parameters = json::array();
  for (const auto& field : sy::describe<operators::attention_forward>().fields) {
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
  if (wanted.empty() || wanted == "attention_forward")
    count<operators::attention_forward>("attention_forward fifty", fifty_parameters());
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
