// SPDX-License-Identifier: MIT
// A libnvidia-ml and a libcuda of two devices for energy.py: 100 and 400 W, by counters that change every
// 20 ms. FAKE_NVML says how it misbehaves: "no_init", "stranger" (it does not know the device), "no_counter",
// "frozen", "lost" (after a second), "restarted" (the counter begins again after a second), "taciturn" (no
// clocks and no limit).
#include <chrono>
#include <cstring>
#include <string_view>

#include "../environment.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

const clock_type::time_point begin = clock_type::now();

bool misbehaves(std::string_view how) {
  const char* const value = switchyard::test::variable("FAKE_NVML");
  return value != nullptr && how == value;
}

enum answer { success = 0, uninitialized = 1, not_supported = 3, not_found = 6, gpu_is_lost = 15 };

int devices[2] = {0, 1};

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): the libraries' names
int cuInit(unsigned) {
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  const char* const visible = switchyard::test::variable("CUDA_VISIBLE_DEVICES");
  if (ordinal != 0 && visible != nullptr) return 101;
  *device = visible == nullptr ? ordinal : visible[0] - '0';
  return *device < 2 ? 0 : 101;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::memset(uuid, 0xab, 16);
  uuid[15] = static_cast<unsigned char>(device);
  return 0;
}

const char* nvmlErrorString(int code) {
  switch (code) {
    case uninitialized:
      return "Uninitialized";
    case not_supported:
      return "Not Supported";
    case not_found:
      return "Not Found";
    default:
      return "GPU is lost";
  }
}
int nvmlInit_v2() {
  return misbehaves("no_init") ? uninitialized : success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  const std::string_view name{uuid};
  if (misbehaves("stranger") || name.substr(0, name.size() - 1) != "GPU-abababab-abab-abab-abab-ababababab0")
    return not_found;
  *handle = &devices[name.back() == '1' ? 1 : 0];
  return success;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (misbehaves("no_counter")) return not_supported;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - begin).count();
  if (misbehaves("lost") && ms > 1000) return gpu_is_lost;
  const auto watts = *static_cast<int*>(device) == 0 ? 100 : 400;
  const auto changes = static_cast<unsigned long long>(ms) / 20;
  auto seen = 20 * changes;
  if (misbehaves("frozen")) seen = 0;
  *millijoules = 5'000'000 + seen * static_cast<unsigned long long>(watts);
  if (misbehaves("restarted") && ms > 1000) *millijoules = 0 + seen;
  return success;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  if (misbehaves("taciturn")) return not_supported;
  *mhz = kind == 1 ? 1410 : 2619;
  return success;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  if (misbehaves("taciturn")) return not_supported;
  *milliwatts = 700'000;
  return success;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  *bits = 0x4;
  return success;
}
// NOLINTEND(readability-identifier-naming)
}
