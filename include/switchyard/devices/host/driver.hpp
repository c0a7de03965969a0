// SPDX-License-Identifier: MIT
// The host backend: kernels in shared objects, whose blocks run on a thread pool. Launches are complete when
// they return.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <sched.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/host/floating_point.hpp>
#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/devices/host/shared_object.hpp>
#include <switchyard/devices/host/thread_pool.hpp>
#include <switchyard/devices/launch_geometry.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/tensor_map_request.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hardware/launch_limits.hpp>
#include <switchyard/io/write_quietly.hpp>

namespace switchyard {
inline namespace v0 {
namespace host {

/// How many processors this process may run on.
[[nodiscard]] inline std::size_t usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : static_cast<std::size_t>(count);
}

/// The properties of this machine's processor.
[[nodiscard, gnu::cold]] inline device_properties read_properties() {
  device_properties out;
  out.backend = "host";
#if defined(__x86_64__)
  out.arch = "x86_64";
  __builtin_cpu_init();
  out.set("avx2", __builtin_cpu_supports("avx2") != 0);
  out.set("fma", __builtin_cpu_supports("fma") != 0);
  out.set("f16c", __builtin_cpu_supports("avx2") !=
                      0);  // every processor with AVX2 has it; GCC 11 first knows its name
  out.set("avx512f", __builtin_cpu_supports("avx512f") != 0);
  out.set("avx512bw", __builtin_cpu_supports("avx512bw") != 0);
  out.set("avx512dq", __builtin_cpu_supports("avx512dq") != 0);
  out.set("avx512vl", __builtin_cpu_supports("avx512vl") != 0);
#elif defined(__aarch64__)
  out.arch = "aarch64";
  out.set("neon", 1);
#else
  out.arch = "unknown";
#endif
  out.name = out.arch;
  // The kernel writes what is asked for, processor by processor: a large buffer would take many of them.
  std::array<char, 512> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): the stream writes it
  std::ifstream info;
  info.rdbuf()->pubsetbuf(buffer.data(), buffer.size());
  info.open("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    if (const auto colon = line.find(": "); colon != std::string::npos) out.name = line.substr(colon + 2);
    break;
  }
  out.set("multiprocessors", static_cast<std::int64_t>(usable_processors()));
  out.set("memory_bytes", static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
#if defined(_SC_LEVEL2_CACHE_SIZE)
  out.set("l2_bytes", ::sysconf(_SC_LEVEL2_CACHE_SIZE));
#endif
  out.set("warp_size", 1);
  return out;
}

class driver final : public device_driver {
 public:
  /// `threads`: how many work on a launch, including the caller's.
  explicit driver(std::size_t threads = usable_processors())
      : properties_{read_properties()}, pool_{threads} {
    properties_.set("multiprocessors", static_cast<std::int64_t>(threads));
  }

  /// Ends the threads of launches, which then run in their callers' alone: before this code is unloaded.
  void end_threads() noexcept { pool_.stop(); }

  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }

  // The loader reads the bytes from an anonymous file, so the bytes that were hashed are those that run.
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    if (const shared_object content{image}; !content.problem().empty())
      fail_load(name, "it " + content.problem());
    const int file = ::memfd_create("switchyard", MFD_CLOEXEC);
    if (file < 0)
      fail_load(name, std::string{"memfd_create: "} + std::generic_category().message(errno),
                failure_kind::transient);
    std::span<const std::byte> rest = image;
    while (!rest.empty()) {
      const ssize_t written = write_quietly(file, rest.data(), rest.size());
      if (written <= 0) {
        const std::string why = std::generic_category().message(errno);
        ::close(file);
        fail_load(name, "copying it into memory: " + why, failure_kind::transient);
      }
      rest = rest.subspan(static_cast<std::size_t>(written));
    }
    const std::string path = unique_path(file);
    const floating_point_guard mode;  // constructors may change it, as those of -ffast-math do
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message for each thread
    const char* const problem = handle == nullptr ? ::dlerror() : nullptr;
    // Without a message there was no memory for one.
    const failure_kind kind =
        problem == nullptr || may_pass(problem) ? failure_kind::transient : failure_kind::permanent;
    const std::string why = problem == nullptr ? "dlopen failed" : problem;
    ::close(file);
    if (handle == nullptr) fail_load(name, why, kind);
    return handle;
  }

  void unload(module_handle module) noexcept override {
    const floating_point_guard mode;
    ::dlclose(module);
  }

  [[nodiscard]] function_handle find(module_handle module, const std::string& name) override {
    void* const symbol = ::dlsym(module, name.c_str());
    if (symbol == nullptr) {
      throw driver_error{
          error_code::kernel_not_found,
          "kernel '" + name +
              "' is not exported by its shared object: build blob and manifest together, and declare the "
              "kernel "
              "extern \"C\" __attribute__((visibility(\"default\"))) const switchyard::host::kernel"};
    }
    const auto* found = static_cast<const kernel*>(symbol);
    if (found->abi != 1 || found->run == nullptr) {
      throw driver_error{
          error_code::blob_not_loadable,
          "kernel '" + name + "' has version " + std::to_string(found->abi) +
              " of the host kernel description; this library runs version 1. Build the kernels anew"};
    }
    return symbol;
  }

  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    const auto& found = *static_cast<const kernel*>(function);
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < found.parameter_count; ++i) {
      out.push_back({end, found.parameter_bytes[i]});
      end += found.parameter_bytes[i];
    }
    return true;
  }

  void configure(function_handle /*function*/, const launch_geometry& geometry) override {
    if (geometry.shared_bytes <= max_host_scratch_bytes) return;
    throw driver_error{error_code::launch_failed, switchyard::detail::explain_scratch(geometry.shared_bytes)};
  }

  [[nodiscard]] bool accepts_grid(const launch_geometry& geometry) const noexcept override {
    std::uint64_t count = 0;
    return switchyard::detail::count_blocks(geometry.grid, count);
  }

  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream /*on*/) noexcept override {
    const auto& started = *static_cast<const kernel*>(function);
    const dim3& grid = geometry.grid;
    std::uint64_t count = 0;
    if (!switchyard::detail::count_blocks(grid, count)) return too_many_blocks;
    if (count == 1 && geometry.shared_bytes == 0) {
      const floating_point_guard mode;
      started.run({{0, 0, 0}, grid, geometry.block, {}}, parameters);
      return 0;
    }
    pool_.run(count, [&](std::uint64_t index) {
      block here{{0, 0, 0}, grid, geometry.block, {}};
      here.index.x = static_cast<std::uint32_t>(index % grid.x);
      here.index.y = static_cast<std::uint32_t>(index / grid.x % grid.y);
      here.index.z = static_cast<std::uint32_t>(index / grid.x / grid.y);
      here.scratch = scratch_of(geometry.shared_bytes);
      started.run(here, parameters);
    });
    return 0;
  }
  [[nodiscard]] status try_launch(function_handle function, const launch_geometry& geometry,
                                  void** parameters, stream on) noexcept override {
    return launch(function, geometry, parameters, on);
  }

  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream /*on*/) noexcept override {
    std::memset(address, byte, bytes);
    return 0;
  }

  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream /*on*/) noexcept override {
    std::memmove(to, from, bytes);
    return 0;
  }

  [[nodiscard]] status synchronize(stream /*on*/) noexcept override { return 0; }

  [[nodiscard]] event_handle create_event() override { return new std::chrono::steady_clock::time_point{}; }
  void destroy_event(event_handle event) noexcept override {
    delete static_cast<std::chrono::steady_clock::time_point*>(event);
  }
  [[nodiscard]] status record(event_handle event, stream /*on*/) noexcept override {
    *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now();
    return 0;
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    using time_point = std::chrono::steady_clock::time_point;
    const auto between = *static_cast<const time_point*>(to) - *static_cast<const time_point*>(from);
    microseconds = std::chrono::duration<double, std::micro>(between).count();
    return 0;
  }
  [[nodiscard]] status elapsed_if_over(event_handle from, event_handle to, bool& is_over,
                                       double& microseconds) noexcept override {
    is_over = true;
    return elapsed(from, to, microseconds);
  }

  [[nodiscard]] void* allocate(std::size_t bytes, stream /*on*/) noexcept override {
    constexpr std::size_t alignment = 256;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void release(void* address, stream /*on*/) noexcept override { std::free(address); }

  [[nodiscard]] status encode(const tensor_map_request& /*request*/, void* /*map*/) noexcept override {
    return no_tensor_maps;
  }

  [[nodiscard]] bool capturing(stream /*on*/) const noexcept override { return false; }

  [[nodiscard]] std::string describe(status code) const override {
    switch (code) {
      case no_tensor_maps:
        return "the host backend has no tensor maps";
      case too_many_blocks:
        return "the grid has more than 2^63 blocks; correct the manifest's 'grid', or call it with a smaller "
               "problem";
      default:
        return "status " + std::to_string(code);
    }
  }

 private:
  static constexpr status no_tensor_maps = 1;
  static constexpr status too_many_blocks = 2;

  [[noreturn]] static void fail_load(const std::string& name, const std::string& why,
                                     failure_kind kind = failure_kind::permanent) {
    throw driver_error{error_code::blob_not_loadable,
                       name + ": cannot be loaded as a shared object: " + why +
                           ". It may be built for another machine, or need a library that is not installed",
                       kind};
  }

  /// Whether the loader failed for lack of descriptors or memory, which may be free later. It returns no
  /// error number, but ends most messages with the system's text for one, in the program's language. The
  /// message of a failed mapping has no such text.
  [[nodiscard]] static bool may_pass(std::string_view message) {
    for (const int transient : {EMFILE, ENFILE, ENOMEM, EAGAIN, EINTR}) {
      if (message.ends_with(std::generic_category().message(transient))) return true;
    }
    for (const std::string_view transient :
         {"failed to map segment from shared object", "cannot map zero-fill pages", "out of memory"}) {
      if (message.ends_with(transient)) return true;
    }
    return false;
  }

  /// A path to an open file that differs from all earlier ones. glibc identifies a loaded object by its path,
  /// and descriptor numbers are reused, so a counter is encoded in `/` and `/./`.
  [[nodiscard]] static std::string unique_path(int file) {
    static std::atomic<std::uint64_t> loads{0};
    std::string path = "/proc/self/fd/";
    for (std::uint64_t rest = loads.fetch_add(1, std::memory_order_relaxed); rest != 0; rest >>= 1U) {
      path += (rest & 1U) != 0 ? "./" : "/";
    }
    return path + std::to_string(file);
  }

  /// Scratch memory of the calling thread, for one block at a time.
  [[nodiscard]] static std::span<std::byte> scratch_of(std::size_t bytes) noexcept {
    struct buffer {
      std::byte* address = nullptr;
      std::size_t bytes = 0;
      ~buffer() { std::free(address); }
    };
    static thread_local buffer mine;
    if (bytes > mine.bytes) {
      std::free(mine.address);
      mine.bytes = (bytes + 4095) / 4096 * 4096;
      mine.address = static_cast<std::byte*>(std::aligned_alloc(64, mine.bytes));
      if (mine.address == nullptr) std::abort();  // like a stack overflow: a kernel cannot report an error
    }
    return {mine.address, bytes};
  }

  device_properties properties_;
  thread_pool pool_;
};

}  // namespace host
}  // namespace v0
}  // namespace switchyard
