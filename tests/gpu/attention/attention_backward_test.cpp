// Attention backward on the GPU, through catalog and dispatcher: the calls of the forward test, less paging
// and sinks, each by every variant that may serve it, against the f64 reference. Steered by the forward
// test's variables.
#include "reference/attention_backward.hpp"

#include <switchyard/operators/attention_backward.hpp>

#include "catch.hpp"
#include "random_call.hpp"

namespace {

using sy::operators::attention_backward;

/// A forward call with its results, and the backward call that follows.
struct backward_call {
  call forward;
  attention_backward::arguments a;
  std::vector<std::byte> out, dout;
  std::vector<float> lse;
  std::array<std::vector<double>, 3> expected;  ///< of dq, dk, dv; NaN where nothing is written
  std::array<double, 3> limits{};

  explicit backward_call(std::uint32_t seed) : forward{seed, false} {
    forward.compute();
    const arguments& f = forward.a;
    const auto elements = static_cast<std::size_t>(forward.out_elements);
    out.resize((elements + 16) * static_cast<std::size_t>(sy::size_of(f.dtype)));
    dout = out;
    std::mt19937 random{seed};
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < elements; ++i) {
      sy::reference::store(f.dtype, out.data(), static_cast<std::int64_t>(i), forward.expected[i]);
      sy::reference::store(f.dtype, dout.data(), static_cast<std::int64_t>(i), normal(random));
    }
    for (const double value : forward.expected_lse) lse.push_back(static_cast<float>(value));

    const auto before = forward.first * sy::size_of(f.dtype);
    a.q = f.q;
    a.k = f.k;
    a.v = f.v;
    a.out = out.data() + before;
    a.dout = dout.data() + before;
    a.lse = lse.data();
    a.dq = const_cast<void*>(f.q);  // for check(); results go elsewhere
    a.dk = const_cast<void*>(f.k);
    a.dv = const_cast<void*>(f.v);
    a.bias = f.bias;
    a.alibi_slopes = f.alibi_slopes;
    a.cu_seqlens_q = f.cu_seqlens_q;
    a.cu_seqlens_k = f.cu_seqlens_k;
    a.seqused_q = f.seqused_q;
    a.seqused_k = f.seqused_k;
    a.dropout_state = f.dropout_state;
    a.batch = f.batch;
    a.heads = f.heads;
    a.heads_kv = f.heads_kv;
    a.seqlen_q = f.seqlen_q;
    a.seqlen_k = f.seqlen_k;
    a.head_dim = f.head_dim;
    a.head_dim_v = f.head_dim_v;
    a.q_stride_batch = a.dq_stride_batch = f.q_stride_batch;
    a.q_stride_head = a.dq_stride_head = f.q_stride_head;
    a.q_stride_token = a.dq_stride_token = f.q_stride_token;
    a.k_stride_batch = a.dk_stride_batch = f.k_stride_batch;
    a.k_stride_head = a.dk_stride_head = f.k_stride_head;
    a.k_stride_token = a.dk_stride_token = f.k_stride_token;
    a.v_stride_batch = a.dv_stride_batch = f.v_stride_batch;
    a.v_stride_head = a.dv_stride_head = f.v_stride_head;
    a.v_stride_token = a.dv_stride_token = f.v_stride_token;
    a.out_stride_batch = a.dout_stride_batch = f.out_stride_batch;
    a.out_stride_head = a.dout_stride_head = f.out_stride_head;
    a.out_stride_token = a.dout_stride_token = f.out_stride_token;
    a.bias_stride_batch = f.bias_stride_batch;
    a.bias_stride_head = f.bias_stride_head;
    a.bias_stride_row = f.bias_stride_row;
    a.lse_stride_batch = f.lse_stride_batch;
    a.lse_stride_head = f.lse_stride_head;
    a.scale = f.scale;
    a.soft_cap = f.soft_cap;
    a.dropout_p = f.dropout_p;
    a.window_left = f.window_left;
    a.window_right = f.window_right;
    a.dropout_seed = f.dropout_seed;
    a.dropout_offset = f.dropout_offset;
    a.dtype = f.dtype;
    a.mask = f.mask;

    // Four times the errors of the formulas carried out plainly in float and rounded once; for what is
    // rounded in between in low precision (the forward's output, weights, slopes) two units at the gradients'
    // size; four times what is left where dP and delta cancel; and, because a weight is off by as much
    // as its score, units of float at the size of the scores of normal numbers.
    const double score = std::abs(static_cast<double>(f.scale)) * std::sqrt(static_cast<double>(f.head_dim));
    std::array<double, 3> noise{};
    const auto exact = compute<double>(&noise);
    const auto plain = compute<float>();
    const double unit = f.dtype == dtype::f32 ? 0x1p-19 : f.dtype == dtype::f16 ? 0x1p-10 : 0x1p-7;
    for (std::size_t n = 0; n < 3; ++n) {
      double error = 0;
      double size = 0;
      for (std::size_t i = 0; i < exact[n].size(); ++i) {
        if (std::isnan(exact[n][i])) continue;
        size = std::max(size, std::abs(exact[n][i]));
        error = std::max(error, std::abs(exact[n][i] - sy::reference::rounded(f.dtype, plain[n][i])));
      }
      const double work = f.dtype == dtype::f32 ? 0x1p-21 : unit;
      limits[n] = 4 * error + 2 * unit * size + 4 * work * noise[n] + 0x1p-19 * score * size + unit * 0x1p-6;
      expected[n] = exact[n];
    }
  }

  [[nodiscard]] std::size_t bytes(std::size_t n) const {
    return expected[n].size() * static_cast<std::size_t>(sy::size_of(a.dtype));
  }

 private:
  template <class Real>
  [[nodiscard]] std::array<std::vector<double>, 3> compute(std::array<double, 3>* noise = nullptr) const {
    const auto bytes_each = static_cast<std::size_t>(sy::size_of(a.dtype));
    const auto first = static_cast<std::size_t>(forward.first);
    const auto fresh = [&](const std::vector<std::byte>& like) {
      return std::vector<Real>(like.size() / bytes_each - first, std::numeric_limits<Real>::quiet_NaN());
    };
    sy::reference::attention_gradients<Real> gradients{fresh(forward.q), fresh(forward.k), fresh(forward.v),
                                                       0, 0};
    sy::reference::attention_backward<Real>(a, gradients);
    if (noise != nullptr)
      *noise = {static_cast<double>(gradients.noise_dq), static_cast<double>(gradients.noise_dk), 0};
    std::array<std::vector<double>, 3> result;
    const std::array<const std::vector<Real>*, 3> from{&gradients.dq, &gradients.dk, &gradients.dv};
    for (std::size_t n = 0; n < 3; ++n) {
      result[n].assign(first, nan);
      for (const Real value : *from[n]) result[n].push_back(static_cast<double>(value));
    }
    return result;
  }
};

}  // namespace

TEST_CASE("attention backward on the GPU: random calls by every variant", "[attention]") {
  if (!raw::available()) skip_program("no CUDA device");
  raw::set_current(raw::primary_context());
  every_variant<attention_backward> variants{sy::device{sy::cuda::open(0)}};
  const std::uint32_t calls = number("SWITCHYARD_TEST_CALLS", 200);
  const std::uint32_t seed = number("SWITCHYARD_TEST_SEED", std::random_device{}());
  constexpr std::array<const char*, 3> names{"dq", "dk", "dv"};
  std::size_t launches = 0;
  std::size_t failures = 0;
  constexpr std::uint32_t portion = 64;
  for (std::uint32_t from = 0; from < calls; from += portion) {
    std::vector<std::unique_ptr<backward_call>> some(std::min(portion, calls - from));
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned n = 0; n < std::max(1U, std::thread::hardware_concurrency()); ++n) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < some.size(); i = next++) {
          some[i] = std::make_unique<backward_call>(seed + from + static_cast<std::uint32_t>(i));
        }
      });
    }
    for (std::thread& worker : workers) worker.join();

    for (std::size_t i = 0; i < some.size(); ++i) {
      const backward_call& each = *some[i];
      REQUIRE(attention_backward::check(each.a) == "");
      device_memory memory;
      const auto before = each.forward.first * sy::size_of(each.a.dtype);
      attention_backward::arguments a = each.a;
      a.q = memory.copy(each.forward.q) + before;
      a.k = memory.copy(each.forward.k) + before;
      a.v = memory.copy(each.forward.v) + before;
      a.out = memory.copy(each.out) + before;
      a.dout = memory.copy(each.dout) + before;
      a.lse = memory.copy(each.lse);
      std::array<std::byte*, 3> results{};
      for (std::size_t n = 0; n < 3; ++n) results[n] = memory.poisoned(each.bytes(n));
      a.dq = results[0] + before;
      a.dk = results[1] + before;
      a.dv = results[2] + before;
      if (a.bias != nullptr) a.bias = memory.copy(each.forward.bias);
      if (a.alibi_slopes != nullptr) a.alibi_slopes = memory.copy(each.forward.slopes);
      if (a.cu_seqlens_q != nullptr) a.cu_seqlens_q = memory.copy(each.forward.cu_q);
      if (a.cu_seqlens_k != nullptr) a.cu_seqlens_k = memory.copy(each.forward.cu_k);
      if (a.seqused_q != nullptr) a.seqused_q = memory.copy(each.forward.used_q);
      if (a.seqused_k != nullptr) a.seqused_k = memory.copy(each.forward.used_k);
      if (a.dropout_state != nullptr) a.dropout_state = memory.copy(each.forward.state);

      const auto check = [&](const std::string& id, sy::dispatcher<attention_backward>& dispatcher) {
        for (std::size_t n = 0; n < 3; ++n) {
          raw::call("cuMemsetD8_v2", reinterpret_cast<unsigned long long>(results[n]),
                    static_cast<unsigned char>(0xFF), std::max<std::size_t>(each.bytes(n), 16));
        }
        raw::call("cuCtxSynchronize");
        dispatcher(sy::stream{}, a);
        raw::call("cuCtxSynchronize");
        ++launches;
        std::string wrong;
        for (std::size_t n = 0; n < 3 && wrong.empty(); ++n) {
          std::vector<std::byte> found(each.bytes(n));
          if (found.empty()) continue;
          raw::call("cuMemcpyDtoH_v2", static_cast<void*>(found.data()),
                    reinterpret_cast<unsigned long long>(results[n]), found.size());
          wrong = differences(names[n], each.expected[n], each.limits[n], a.dtype, found);
        }
        if (wrong.empty()) return;
        ++failures;
        UNSCOPED_INFO("seed " << seed + from + i << ": " << each.forward.text() << ", " << id << ": "
                              << wrong);
        if (failures < 50) CHECK(wrong.empty());
      };
      const std::vector<std::string> serving = variants.serving(a);
      INFO(each.forward.text());
      REQUIRE(!serving.empty());
      for (const std::string& id : serving) check(id, variants.forced(id));
      check("the chosen", variants.free());
    }
  }
  std::printf("%zu launches for %u calls from seed %u\n", launches, calls, seed);
  REQUIRE(failures == 0);
}
