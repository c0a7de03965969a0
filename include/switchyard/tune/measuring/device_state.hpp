// SPDX-License-Identifier: MIT
// Clocks and temperature of an NVIDIA GPU while it is measured, through libnvidia-ml, which is opened at run
// time. Without that library, and on other devices, the state is unknown, and the tuner says so.
#pragma once

#include <array>
#include <cstdint>
#include <dlfcn.h>
#include <optional>
#include <string>

namespace switchyard {
inline namespace v0 {
namespace tune {

struct device_state {
  unsigned clock_mhz = 0;         ///< of the multiprocessors
  unsigned memory_clock_mhz = 0;  ///< of the memory
  unsigned celsius = 0;
  std::uint64_t slowdowns = 0;  ///< why clocks are lower than they could be, as NVML's bits; 0 or 1: nothing
};

/// Reads the state of one CUDA device.
class state_reader {
 public:
  /// `ordinal` as CUDA counts, after CUDA_VISIBLE_DEVICES: the two libraries are joined by the PCI address.
  explicit state_reader(int ordinal) {
    void* const management = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (management == nullptr || driver == nullptr) return;
    int (*init)() = nullptr;
    int (*get_bus)(char*, int, int) = nullptr;
    int (*get_handle)(const char*, void**) = nullptr;
    const bool found = load(management, "nvmlInit_v2", init) &&
                       load(driver, "cuDeviceGetPCIBusId", get_bus) &&
                       load(management, "nvmlDeviceGetHandleByPciBusId_v2", get_handle) &&
                       load(management, "nvmlDeviceGetClockInfo", clock_) &&
                       load(management, "nvmlDeviceGetTemperature", temperature_);
    load(management, "nvmlDeviceGetCurrentClocksThrottleReasons", slowdowns_);
    std::array<char, 32> bus{};
    if (!found || init() != 0 || get_bus(bus.data(), static_cast<int>(bus.size()), ordinal) != 0 ||
        get_handle(bus.data(), &handle_) != 0) {
      handle_ = nullptr;
    }
  }

  /// Nothing where it cannot be known.
  [[nodiscard]] std::optional<device_state> read() const {
    if (handle_ == nullptr) return std::nullopt;
    constexpr int multiprocessors = 1;
    constexpr int memory = 2;
    device_state out;
    if (clock_(handle_, multiprocessors, &out.clock_mhz) != 0) return std::nullopt;
    if (clock_(handle_, memory, &out.memory_clock_mhz) != 0) out.memory_clock_mhz = 0;
    if (temperature_(handle_, 0, &out.celsius) != 0) out.celsius = 0;
    unsigned long long bits = 0;
    if (slowdowns_ != nullptr && slowdowns_(handle_, &bits) == 0) out.slowdowns = bits;
    return out;
  }

 private:
  template <class Function>
  static bool load(void* library, const char* name, Function& out) {
    out = reinterpret_cast<Function>(::dlsym(library, name));
    return out != nullptr;
  }

  void* handle_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*slowdowns_)(void*, unsigned long long*) = nullptr;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
