// The least an engine does: open the catalog once, make a dispatcher for each operator, call it.
#include <cstdio>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  sy::catalog catalog;                           // SWITCHYARD_PATH, then the installed files
  const sy::device device = sy::device::host();  // or device::current(): CUDA, HIP, else the CPU
  sy::dispatcher<sy::operators::rotary> rotary{catalog, device};

  std::vector<float> q(16 * 4 * 64, 1.0F);  // 16 tokens, 4 query heads of 64
  std::vector<float> k(16 * 2 * 64, 1.0F);  // and 2 key heads
  sy::operators::rotary::arguments call{.q = q.data(), .k = k.data(), .q_out = q.data(), .k_out = k.data()};
  call.batch = 1, call.seqlen = 16, call.heads_q = 4, call.heads_k = 2;
  call.head_dim = call.rotary_dim = 64;
  call.q_stride_token = call.q_out_stride_token = 4 * 64;
  call.k_stride_token = call.k_out_stride_token = 2 * 64;
  call.q_stride_head = call.q_out_stride_head = call.k_stride_head = call.k_out_stride_head = 64;

  const auto why = rotary.explain(call);  // what will run, as data
  rotary({}, call);                       // choose, bind, launch: here on the null stream
  std::printf("position 1 turns (1, 1) into (%.3f, %.3f)\n", static_cast<double>(q[4 * 64]),
              static_cast<double>(q[4 * 64 + 32]));
  std::printf("%s\n", to_string(why).c_str());
}
