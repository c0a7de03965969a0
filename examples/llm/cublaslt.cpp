// SPDX-License-Identifier: MIT
#include "cublaslt.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <switchyard/error.hpp>

// The declarations below are those of cublasLt.h, cublas_api.h and library_types.h of CUDA 12 and 13, as far
// as they are needed. Each of them is part of the library's stable interface.

namespace llm {

namespace sy = switchyard;

namespace {

using cublas_status = int;  // 0: success

constexpr int type_f32 = 0;      // CUDA_R_32F
constexpr int type_f16 = 2;      // CUDA_R_16F
constexpr int type_bf16 = 14;    // CUDA_R_16BF
constexpr int compute_f32 = 68;  // CUBLAS_COMPUTE_32F

constexpr int desc_transa = 3;         // CUBLASLT_MATMUL_DESC_TRANSA
constexpr std::int32_t transpose = 1;  // CUBLAS_OP_T

constexpr int preference_workspace_bytes = 1;        // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
constexpr int preference_min_alignment_a = 5;        // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
constexpr int preference_min_alignment_b = 6;        // ..._B_BYTES
constexpr int preference_min_alignment_c = 7;        // ..._C_BYTES
constexpr int preference_min_alignment_d = 8;        // ..._D_BYTES
constexpr std::size_t workspace_bytes = 32U << 20U;  // NVIDIA's advice for Hopper

}  // namespace

struct cublaslt::algorithm {  // cublasLtMatmulAlgo_t
  std::uint64_t data[8];      // NOLINT(modernize-avoid-c-arrays): the API's layout
};

struct cublaslt::heuristic_result {  // cublasLtMatmulHeuristicResult_t
  algorithm algo;
  std::size_t workspace_bytes;
  cublas_status state;
  float waves;
  int reserved[4];  // NOLINT(modernize-avoid-c-arrays)
};

struct cublaslt::functions {
  cublas_status (*create)(void** handle) = nullptr;
  cublas_status (*destroy)(void* handle) = nullptr;
  const char* (*status_name)(cublas_status status) = nullptr;
  cublas_status (*desc_create)(void** desc, int compute_type, int scale_type) = nullptr;
  cublas_status (*desc_destroy)(void* desc) = nullptr;
  cublas_status (*desc_set)(void* desc, int attribute, const void* value, std::size_t bytes) = nullptr;
  cublas_status (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                 std::int64_t stride) = nullptr;
  cublas_status (*layout_destroy)(void* layout) = nullptr;
  cublas_status (*preference_create)(void** preference) = nullptr;
  cublas_status (*preference_destroy)(void* preference) = nullptr;
  cublas_status (*preference_set)(void* preference, int attribute, const void* value,
                                  std::size_t bytes) = nullptr;
  cublas_status (*find_algorithm)(void* handle, void* desc, void* a, void* b, void* c, void* d,
                                  void* preference, int wanted, heuristic_result* results,
                                  int* count) = nullptr;
  cublas_status (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                          const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                          void* d, void* d_layout, const algorithm* algo, void* workspace,
                          std::size_t workspace_bytes, void* stream) = nullptr;

  /// Empty, or the first function that the library lacks.
  [[nodiscard]] std::string find_all(void* library) {
    std::string lacking;
    const auto find = [&](auto& pointer, const char* name) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(::dlsym(library, name));
      if (pointer == nullptr && lacking.empty()) lacking = name;
    };
    find(create, "cublasLtCreate");
    find(destroy, "cublasLtDestroy");
    find(status_name, "cublasLtGetStatusName");
    find(desc_create, "cublasLtMatmulDescCreate");
    find(desc_destroy, "cublasLtMatmulDescDestroy");
    find(desc_set, "cublasLtMatmulDescSetAttribute");
    find(layout_create, "cublasLtMatrixLayoutCreate");
    find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(preference_create, "cublasLtMatmulPreferenceCreate");
    find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(find_algorithm, "cublasLtMatmulAlgoGetHeuristic");
    find(matmul, "cublasLtMatmul");
    return lacking;
  }
};

/// The properties by which an algorithm is chosen. Alignments are in bytes, at most 256.
struct cublaslt::shape {
  std::int64_t rows, inputs, outputs, x_stride, out_stride;
  sy::dtype type;
  std::uint32_t x_alignment, w_alignment, out_alignment;

  [[nodiscard]] auto key() const {
    return std::tie(rows, inputs, outputs, x_stride, out_stride, type, x_alignment, w_alignment,
                    out_alignment);
  }
  friend bool operator<(const shape& a, const shape& b) { return a.key() < b.key(); }
};

/// Descriptors of a product, and the algorithm for it.
struct cublaslt::plan {
  explicit plan(const functions& of) : library{of} {}
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() {
    for (void* const layout : {w, x, out}) {
      if (layout != nullptr) library.layout_destroy(layout);
    }
    if (desc != nullptr) library.desc_destroy(desc);
  }

  const functions& library;
  void* desc = nullptr;
  void *w = nullptr, *x = nullptr, *out = nullptr;
  bool is_served = false;
  algorithm algo{};
};

std::unique_ptr<cublaslt> cublaslt::open(const sy::device& device,
                                         const std::shared_ptr<const device_api>& api, std::string& why) {
  if (device.driver()->properties().backend != "cuda") {
    why = "it is for CUDA devices";
    return nullptr;
  }
  std::vector<std::string> names{"libcublasLt.so.13", "libcublasLt.so.12"};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets variables
  if (const char* const path = std::getenv("LLM_CUBLASLT"); path != nullptr && *path != '\0') names = {path};
  void* library = nullptr;
  for (const std::string& name : names) {
    library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message for each thread
    if (const char* const problem = ::dlerror(); why.empty() && problem != nullptr) why = problem;
  }
  if (library == nullptr) return nullptr;
  auto found = std::make_unique<functions>();
  if (const std::string lacking = found->find_all(library); !lacking.empty()) {
    why = "the library lacks " + lacking;
    return nullptr;
  }
  const device_scope current{api.get()};
  void* handle = nullptr;
  if (const cublas_status result = found->create(&handle); result != 0) {
    why = std::string{"cublasLtCreate: "} + found->status_name(result);
    return nullptr;
  }
  why.clear();
  return std::unique_ptr<cublaslt>{new cublaslt{device, api, std::move(found), handle}};
}

cublaslt::cublaslt(const sy::device& device, std::shared_ptr<const device_api> api,
                   std::unique_ptr<functions> library, void* handle)
    : api_{std::move(api)},
      library_{std::move(library)},
      handle_{handle},
      workspace_{device, workspace_bytes} {}

cublaslt::~cublaslt() {
  const device_scope current{api_.get()};
  plans_.clear();
  library_->destroy(handle_);
}

const cublaslt::plan& cublaslt::plan_of(const plain_product& product) {
  const auto alignment_of = [](const void* address) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
    return std::uint32_t{1} << static_cast<unsigned>(std::countr_zero(bits));
  };
  const shape of{product.rows,
                 product.inputs,
                 product.outputs,
                 product.x_stride,
                 product.out_stride,
                 product.type,
                 alignment_of(product.x),
                 alignment_of(product.w),
                 alignment_of(product.out)};
  constexpr std::size_t most = 4096;  // every length of a prompt's last piece is a shape of its own
  if (const auto found = plans_.find(of); found != plans_.end()) return *found->second;
  if (plans_.size() >= most) plans_.clear();
  return *plans_.emplace(of, make_plan(of)).first->second;
}

/// cuBLAS counts columns first: what is [rows, columns] here is a matrix of `columns` rows there. So the
/// product is out^T = w x^T, with w transposed.
std::unique_ptr<cublaslt::plan> cublaslt::make_plan(const shape& of) const {
  auto out = std::make_unique<plan>(*library_);
  const int type = of.type == sy::dtype::f16 ? type_f16 : type_bf16;
  const auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  void* preference = nullptr;
  const auto set = [&](int attribute, const auto& value) {
    return library_->preference_set(preference, attribute, &value, sizeof value) == 0;
  };
  static_assert(sizeof(heuristic_result) == 96);
  heuristic_result result{};
  int count = 0;
  out->is_served =
      library_->desc_create(&out->desc, compute_f32, type_f32) == 0 &&
      library_->desc_set(out->desc, desc_transa, &transpose, sizeof transpose) == 0 &&
      library_->layout_create(&out->w, type, size(of.inputs), size(of.outputs), of.inputs) == 0 &&
      library_->layout_create(&out->x, type, size(of.inputs), size(of.rows), of.x_stride) == 0 &&
      library_->layout_create(&out->out, type, size(of.outputs), size(of.rows), of.out_stride) == 0 &&
      library_->preference_create(&preference) == 0 && set(preference_workspace_bytes, workspace_bytes) &&
      set(preference_min_alignment_a, of.w_alignment) && set(preference_min_alignment_b, of.x_alignment) &&
      set(preference_min_alignment_c, of.out_alignment) &&
      set(preference_min_alignment_d, of.out_alignment) &&
      library_->find_algorithm(handle_, out->desc, out->w, out->x, out->out, out->out, preference, 1, &result,
                               &count) == 0 &&
      count > 0 && result.state == 0;
  out->algo = result.algo;
  if (preference != nullptr) library_->preference_destroy(preference);
  return out;
}

bool cublaslt::multiply(const plain_product& product, sy::stream on) {
  const plan& with = plan_of(product);
  if (!with.is_served) return false;
  const float alpha = 1;
  const float beta = 0;
  const cublas_status result = library_->matmul(
      handle_, with.desc, &alpha, product.w, with.w, product.x, with.x, &beta, product.out, with.out,
      product.out, with.out, &with.algo, workspace_.data(), workspace_.bytes(), on.handle());
  if (result == 0) return true;
  throw sy::driver_error{sy::error_code::launch_failed,
                         std::string{"cublasLtMatmul: "} + library_->status_name(result)};
}

}  // namespace llm
