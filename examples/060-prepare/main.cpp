// SPDX-License-Identifier: MIT
// Before traffic, or before a CUDA stream capture: load every kernel that a range of calls may need.
//
// A call inside a capture that needs a kernel which is not loaded fails with error 212. After prepare() no
// call in the range loads, and with a workspace of your own no call allocates.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <switchyard/switchyard.hpp>

int main() {
  namespace sy = switchyard;
  using sy::operators::rms_norm_backward;
  sy::catalog catalog;
  sy::dispatcher<rms_norm_backward> run{catalog, sy::device::host()};

  const std::vector<float> ones(256, 1.0F);
  std::vector<float> grad_x(256);
  std::vector<float> grad_gamma(256);
  const sy::const_tensor x{std::span{ones}, {1, 256}};
  const sy::const_tensor rstd{ones.data(), sy::dtype::f32, {1}};
  const sy::const_tensor gamma{std::span{ones}};
  const rms_norm_backward::arguments call =
      rms_norm_backward::call(x, x, rstd, sy::tensor{std::span{grad_x}, {1, 256}},
                              {.gamma = gamma, .grad_gamma = sy::tensor{std::span{grad_gamma}}});

  run.prepare(call);                                             // what this call needs
  run.prepare(call, {{"rows", 1, 4096}, {"columns", 64, 256}});  // what any call in these ranges needs

  const std::size_t bytes = run.workspace_bytes(call);
  std::printf("workspace: %zu bytes\n", bytes);
  std::vector<std::byte> memory(bytes + 256);
  void* aligned = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
  run({}, call, {aligned, bytes});  // without the last argument the dispatcher allocates from the device
  std::printf("grad_gamma[0] = %g\n", static_cast<double>(grad_gamma[0]));
}
