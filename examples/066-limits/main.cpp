// SPDX-License-Identifier: MIT
// A promise of memory: how much workspace suffices for every call of a range, whichever tables arrive, and
// limits that variants must keep to.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
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
  const rms_norm_backward::arguments call = rms_norm_backward::call(
      x, x, rstd, sy::tensor{std::span{grad_x}, {1, 256}},
      {.gamma = sy::const_tensor{std::span{ones}}, .grad_gamma = sy::tensor{std::span{grad_gamma}}});

  const std::size_t bytes = run.workspace_bytes(call, {{"columns", 64, 4096}});
  std::printf("%zu bytes suffice for one row of up to 4096 columns\n", bytes);
  std::vector<std::byte> memory(bytes + 256);
  void* aligned = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
  run({}, call, {aligned, bytes});  // never refused for want of memory

  // Variants that need more than a limit do not serve. Here all of them do.
  sy::dispatcher<rms_norm_backward> small{catalog, sy::device::host(), {.workspace_bytes = 512}};
  try {
    small({}, call);
  } catch (const sy::call_error& problem) {
    const std::string text = problem.what();
    std::printf("error %d:%s\n", static_cast<int>(problem.code()), text.substr(text.rfind(';') + 1).c_str());
  }
}
