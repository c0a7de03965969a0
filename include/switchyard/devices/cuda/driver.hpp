// The cuda backend: one CUDA context behind the interface of driver.hpp.
//
// A device is a context: the primary one, which CUDA's runtime, PyTorch and most engines use and which is
// retained as long as the device lives, or one an engine made itself, which must outlive the device. Asking
// twice for the same context gives the same device. Any thread may call; the context is made current where it
// is not, and the thread's own is current again afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/image.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

namespace detail {

struct loaded_module {
  CUmod_st* module = nullptr;
  std::string name;
  std::string text;  ///< of PTX, which must end in a null character
};

/// What a failed load is to be called.
[[nodiscard]] inline error_code load_error(int code) noexcept {
  if (code == result::out_of_memory) return error_code::out_of_memory;
  if (code >= result::stream_capture_unsupported && code <= result::captured_event)
    return error_code::load_during_capture;
  return error_code::blob_not_loadable;
}

[[nodiscard]] inline std::string launch_text(std::string_view what, CUfunc_st* function, const api& driver) {
  const char* name = nullptr;
  if (driver.func_get_name == nullptr || driver.func_get_name(&name, function) != result::success)
    name = nullptr;
  std::string text = name == nullptr ? std::string{"a kernel"} : "kernel '" + std::string{name} + "'";
  text += ' ';
  text += what;
  return text;
}

}  // namespace detail

/// Whether it is the null stream (0), CU_STREAM_LEGACY (1) or CU_STREAM_PER_THREAD (2), which are of
/// whichever context is current; handles of streams proper are addresses.
[[nodiscard]] inline bool is_default(stream where) noexcept {
  return reinterpret_cast<std::uintptr_t>(where.handle()) <= 2;
}

namespace detail {

/// The context of a stream that is no default one: a green context's stream is of its device's primary one.
[[nodiscard]] inline int context_of(const api& driver, stream where, CUctx_st** context) noexcept {
  auto* const handle = static_cast<CUstream_st*>(where);
  CUgreenCtx_st* green = nullptr;
  return driver.stream_get_ctx_v2 != nullptr ? driver.stream_get_ctx_v2(handle, context, &green)
                                             : driver.stream_get_ctx(handle, context);
}

}  // namespace detail

class device final : public device_driver {
 public:
  /// Use open, current or of. Takes over one retention of the primary context when `primary`.
  device(std::shared_ptr<const api> driver, int ordinal, CUctx_st* context, bool primary)
      : driver_{std::move(driver)}, ordinal_{ordinal}, context_{context}, primary_{primary} {
    try {
      read_properties();
    } catch (...) {
      if (primary_) driver_->primary_ctx_release(ordinal_);
      throw;
    }
  }
  ~device() override {
    if (primary_) driver_->primary_ctx_release(ordinal_);
  }
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  /// The context, as a CUcontext.
  [[nodiscard]] CUctx_st* context() const noexcept { return context_; }
  /// The device's number, as cuDeviceGet and cudaSetDevice count.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// 90 for compute capability 9.0.
  [[nodiscard]] int compute_capability() const noexcept { return compute_capability_; }

  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }

  /// Takes a cubin, a fatbin or PTX. PTX is compiled here, which can take seconds.
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    const image_kind kind = kind_of(image);
    if (kind == image_kind::broken) {
      throw driver_error{
          error_code::blob_not_loadable,
          name + ": " + std::to_string(image.size()) +
              " bytes that are neither a whole cubin, nor a fatbin, nor PTX: rebuild the blob"};
    }
    auto record = std::make_unique<detail::loaded_module>();
    record->name = name;
    const void* data = image.data();
    if (kind == image_kind::ptx) {
      record->text.assign(reinterpret_cast<const char*>(image.data()), image.size());
      data = record->text.c_str();
    }

    constexpr std::size_t log_bytes = 8192;
    std::vector<char> information(log_bytes, '\0');
    std::vector<char> errors(log_bytes, '\0');
    std::array<int, 4> names{load_option::info_log, load_option::info_log_bytes, load_option::error_log,
                             load_option::error_log_bytes};
    std::array<void*, 4> values{information.data(), reinterpret_cast<void*>(log_bytes), errors.data(),
                                reinterpret_cast<void*>(log_bytes)};
    const context_guard guard{*driver_, context_};
    require(guard.status(), "cannot make the context current");
    const relaxed_capture relaxed{*driver_};
    const int code =
        driver_->module_load_data_ex(&record->module, data, names.size(), names.data(), values.data());
    if (code != result::success) {
      std::string text = name + ": " + describe(code) + "; the device is " + properties_.arch + " (" +
                         properties_.name + ", CUDA " + version_text(driver_version_) + ")";
      if (const auto built_for = compute_capability_of(image)) {
        (text += ", the blob is for ") += architecture_name(*built_for);
      }
      for (auto* const log : {&errors, &information}) {
        log->back() = '\0';
        std::string_view lines{log->data()};
        while (lines.ends_with('\n')) lines.remove_suffix(1);
        if (!lines.empty()) (text += '\n') += lines;
      }
      throw driver_error{detail::load_error(code), text};
    }
    return record.release();
  }

  void unload(module_handle module) noexcept override {
    const std::unique_ptr<detail::loaded_module> record{static_cast<detail::loaded_module*>(module)};
    if (record == nullptr) return;
    const context_guard guard{*driver_, context_};
    const relaxed_capture relaxed{*driver_};
    if (guard.status() == result::success) driver_->module_unload(record->module);
  }

  /// The handle is a CUfunction. Its code is on the device when this returns, whatever CUDA_MODULE_LOADING
  /// says, so that no launch has to wait for it.
  [[nodiscard]] function_handle find(module_handle module, const std::string& kernel) override {
    const auto& record = *static_cast<const detail::loaded_module*>(module);
    const context_guard guard{*driver_, context_};
    require(guard.status(), "cannot make the context current");
    const relaxed_capture relaxed{*driver_};
    CUfunc_st* function = nullptr;
    int code = driver_->module_get_function(&function, record.module, kernel.c_str());
    if (code == result::not_found) {
      throw driver_error{
          error_code::kernel_not_found,
          record.name + " has no kernel '" + kernel +
              "': compare with the names cuobjdump -symbols prints; C++ kernels have mangled ones"};
    }
    if (code == result::success) {
      if (driver_->func_load != nullptr) {
        code = driver_->func_load(function);
      } else {
        int registers = 0;
        code = driver_->func_get_attribute(&registers, function_attribute::max_threads_per_block, function);
      }
    }
    if (code != result::success) {
      throw driver_error{detail::load_error(code),
                         record.name + ": kernel '" + kernel + "' cannot be loaded: " + describe(code)};
    }
    return function;
  }

  /// False with drivers before CUDA 12.4.
  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    out.clear();
    if (driver_->func_get_param_info == nullptr) return false;
    const context_guard guard{*driver_, context_};
    require(guard.status(), "cannot make the context current");
    for (std::size_t index = 0;; ++index) {
      std::size_t offset = 0;
      std::size_t bytes = 0;
      const int code = driver_->func_get_param_info(handle(function), index, &offset, &bytes);
      if (code == result::invalid_value) return true;  // one past the last
      if (code == result::not_supported) return false;
      require(code, detail::launch_text("does not tell its parameters", handle(function), *driver_));
      out.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
    }
  }

  /// Throws driver_error with launch_failed for a launch that could never succeed on this device.
  void configure(function_handle function, const launch_geometry& geometry) override {
    const context_guard guard{*driver_, context_};
    require(guard.status(), "cannot make the context current");
    const relaxed_capture relaxed{*driver_};
    CUfunc_st* const kernel = handle(function);
    const auto refuse = [&](const std::string& what) {
      throw driver_error{error_code::launch_failed,
                         detail::launch_text(what, kernel, *driver_) + " on " + properties_.name};
    };

    const auto threads = std::uint64_t{geometry.block.x} * geometry.block.y * geometry.block.z;
    const auto most_threads =
        static_cast<std::uint64_t>(attribute_of(kernel, function_attribute::max_threads_per_block));
    if (threads > most_threads) {
      refuse("takes at most " + std::to_string(most_threads) + " threads a block, not " +
             std::to_string(threads) + ",");
    }
    if (geometry.cooperative && !cooperative_) refuse("needs cooperative launches, which are not there");

    const auto blocks = std::uint64_t{geometry.cluster.x} * geometry.cluster.y * geometry.cluster.z;
    if (blocks > 1 && !clusters_) refuse("needs clusters, which are not there");

    // Both attributes only ever go up, so that threads that ready one kernel for different launches agree.
    const std::scoped_lock lock{configure_mutex_};
    constexpr std::uint64_t portable_cluster = 8;
    if (blocks > portable_cluster) {
      require(driver_->func_set_attribute(kernel, function_attribute::non_portable_cluster_size_allowed, 1),
              detail::launch_text("cannot have clusters of " + std::to_string(blocks) + " blocks", kernel,
                                  *driver_));
    }
    const std::int64_t fixed = attribute_of(kernel, function_attribute::shared_bytes);
    if (fixed + geometry.shared_bytes > shared_bytes_per_block_) {
      refuse("needs " + std::to_string(fixed) + " + " + std::to_string(geometry.shared_bytes) +
             " bytes of shared memory a block; there are " + std::to_string(shared_bytes_per_block_));
    }
    if (std::int64_t{geometry.shared_bytes} >
        attribute_of(kernel, function_attribute::max_dynamic_shared_bytes)) {
      require(driver_->func_set_attribute(kernel, function_attribute::max_dynamic_shared_bytes,
                                          static_cast<int>(geometry.shared_bytes)),
              detail::launch_text(
                  "cannot have " + std::to_string(geometry.shared_bytes) + " bytes of shared memory a block",
                  kernel, *driver_));
    }
  }

  /// A stream of its own carries its context, whichever is current: only a default stream (null, legacy,
  /// per-thread) needs it made current. Were a driver to see that differently, it says so and the launch is
  /// tried again.
  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream where) noexcept override {
    if (!is_default(where)) [[likely]] {
      const int code = start(handle(function), geometry, parameters, handle(where));
      if (code != result::invalid_context && code != result::invalid_handle) [[likely]]
        return code;
    }
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) [[unlikely]]
      return guard.status();
    return start(handle(function), geometry, parameters, handle(where));
  }

  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream where) noexcept override {
    if (bytes == 0) return result::success;
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    return driver_->memset_d8_async(reinterpret_cast<std::uintptr_t>(address), byte, bytes, handle(where));
  }

  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream where) noexcept override {
    if (bytes == 0) return result::success;
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    return driver_->memcpy_async(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from),
                                 bytes, handle(where));
  }

  [[nodiscard]] status synchronize(stream where) noexcept override {
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    return driver_->stream_synchronize(handle(where));
  }

  [[nodiscard]] event_handle create_event() override {
    const context_guard guard{*driver_, context_};
    require(guard.status(), "cannot make the context current");
    CUevent_st* event = nullptr;
    require(driver_->event_create(&event, 0), "cannot create an event");
    return event;
  }
  void destroy_event(event_handle event) noexcept override {
    if (event == nullptr) return;
    const context_guard guard{*driver_, context_};
    if (guard.status() == result::success) driver_->event_destroy(static_cast<CUevent_st*>(event));
  }
  [[nodiscard]] status record(event_handle event, stream where) noexcept override {
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    return driver_->event_record(static_cast<CUevent_st*>(event), handle(where));
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    auto* const last = static_cast<CUevent_st*>(to);
    if (const int code = driver_->event_synchronize(last); code != result::success) return code;
    float milliseconds = 0;
    const int code = driver_->event_elapsed_time(&milliseconds, static_cast<CUevent_st*>(from), last);
    if (code == result::success) microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }

  /// From the device's current memory pool.
  [[nodiscard]] void* allocate(std::size_t bytes, stream where) noexcept override {
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return nullptr;
    unsigned long long address = 0;
    const int code = driver_->mem_alloc_async(&address, std::max(bytes, std::size_t{1}), handle(where));
    return code == result::success ? reinterpret_cast<void*>(address) : nullptr;
  }

  void release(void* address, stream where) noexcept override {
    if (address == nullptr) return;
    const context_guard guard{*driver_, context_};
    if (guard.status() == result::success)
      driver_->mem_free_async(reinterpret_cast<std::uintptr_t>(address), handle(where));
  }

  /// CUDA_ERROR_NOT_SUPPORTED with drivers before CUDA 12.0.
  [[nodiscard]] status encode(const tensor_map_request& request, void* map) noexcept override {
    if (driver_->tensor_map_encode_tiled == nullptr) return result::not_supported;
    if (request.rank == 0 || request.rank > std::size(request.extents)) return result::invalid_value;
    // It touches no device, yet answers CUDA_ERROR_INVALID_CONTEXT to a thread that has no context.
    const context_guard guard{*driver_, context_};
    if (guard.status() != result::success) return guard.status();
    return driver_->tensor_map_encode_tiled(
        map, static_cast<int>(request.element_type), request.rank, request.address, request.extents,
        request.stride_bytes, request.box, request.element_strides, static_cast<int>(request.interleave),
        static_cast<int>(request.swizzle), static_cast<int>(request.l2_promotion),
        static_cast<int>(request.out_of_bounds_fill));
  }

  /// True also where the driver will not say because another stream's capture forbids the legacy default
  /// stream.
  [[nodiscard]] bool capturing(stream where) const noexcept override {
    const context_guard guard{*driver_, context_};
    int state = capture::none;
    const int code = driver_->stream_is_capturing(handle(where), &state);
    if (code >= result::stream_capture_unsupported && code <= result::captured_event) return true;
    return code == result::success && state != capture::none;
  }

  [[nodiscard]] bool owns(stream where) const noexcept override {
    CUctx_st* context = nullptr;
    return is_default(where) || detail::context_of(*driver_, where, &context) != result::success ||
           context == context_;
  }

  [[nodiscard]] std::string describe(status code) const override { return cuda::describe(*driver_, code); }

 private:
  [[nodiscard]] static CUfunc_st* handle(function_handle function) noexcept {
    return static_cast<CUfunc_st*>(function);
  }
  [[nodiscard]] static CUstream_st* handle(stream where) noexcept { return static_cast<CUstream_st*>(where); }

  [[nodiscard]] status start(CUfunc_st* function, const launch_geometry& geometry, void** parameters,
                             CUstream_st* where) const noexcept {
    if (geometry.cluster == dim3{} && !geometry.cooperative && !geometry.programmatic_dependent_launch)
        [[likely]] {
      return driver_->launch_kernel(function, geometry.grid.x, geometry.grid.y, geometry.grid.z,
                                    geometry.block.x, geometry.block.y, geometry.block.z,
                                    geometry.shared_bytes, where, parameters, nullptr);
    }
    return start_with_attributes(function, geometry, parameters, where);
  }

  // Apart, so that the way of the other launches needs no room for attributes.
  [[nodiscard, gnu::noinline]] status start_with_attributes(CUfunc_st* function,
                                                            const launch_geometry& geometry,
                                                            void** parameters,
                                                            CUstream_st* where) const noexcept {
    std::array<launch_attribute, 3> attributes;
    unsigned count = 0;
    if (!(geometry.cluster == dim3{})) {
      attributes[count].id = launch_attribute_id::cluster_dimension;
      attributes[count++].value.cluster = {geometry.cluster.x, geometry.cluster.y, geometry.cluster.z};
    }
    if (geometry.cooperative) {
      attributes[count].id = launch_attribute_id::cooperative;
      attributes[count++].value.flag = 1;
    }
    // Only allows an overlap, so that a device which knows none runs the kernel rightly without it.
    if (geometry.programmatic_dependent_launch && programmatic_) {
      attributes[count].id = launch_attribute_id::programmatic_stream_serialization;
      attributes[count++].value.flag = 1;
    }
    const launch_config config{
        geometry.grid.x,  geometry.grid.y,       geometry.grid.z, geometry.block.x,  geometry.block.y,
        geometry.block.z, geometry.shared_bytes, where,           attributes.data(), count};
    return driver_->launch_kernel_ex(&config, function, parameters, nullptr);
  }

  void require(int code, const std::string& what) const {
    if (code == result::success) return;
    throw driver_error{error_code::driver_failed, properties_.name + ": " + what + ": " + describe(code)};
  }

  [[nodiscard]] int attribute_of(CUfunc_st* function, int attribute) const {
    int value = 0;
    require(driver_->func_get_attribute(&value, attribute, function),
            detail::launch_text("does not tell an attribute", function, *driver_));
    return value;
  }

  void read_properties() {
    const auto ask = [this](int attribute) -> std::int64_t {
      int value = 0;
      // An attribute that this driver does not know is one that the device does not have.
      return driver_->device_get_attribute(&value, attribute, ordinal_) == result::success ? value : 0;
    };
    std::array<char, 256> name{};
    if (driver_->device_get_name(name.data(), static_cast<int>(name.size()) - 1, ordinal_) == result::success)
      properties_.name = name.data();
    require(driver_->driver_get_version(&driver_version_), "cuDriverGetVersion");
    std::size_t memory_bytes = 0;
    require(driver_->device_total_mem(&memory_bytes, ordinal_), "cuDeviceTotalMem");

    namespace query = device_query;
    compute_capability_ =
        static_cast<int>(10 * ask(query::compute_capability_major) + ask(query::compute_capability_minor));
    if (compute_capability_ < 10) {
      throw driver_error{error_code::unsupported_device,
                         "CUDA device " + std::to_string(ordinal_) + " (" + properties_.name +
                             ") has no compute capability, so it cannot be known what runs on it"};
    }
    cooperative_ = ask(query::cooperative_launch) != 0;
    clusters_ = ask(query::cluster_launch) != 0;
    programmatic_ = compute_capability_ >= 90;

    properties_.backend = "cuda";
    properties_.arch = architecture_name(compute_capability_);
    properties_.set("multiprocessors", ask(query::multiprocessors));
    // Both edges of the clock carry data.
    properties_.set("memory_bandwidth",
                    ask(query::memory_clock_khz) * 1000 * 2 * ask(query::memory_bus_bits) / 8);
    properties_.set("memory_bytes", static_cast<std::int64_t>(memory_bytes));
    properties_.set("l2_bytes", ask(query::l2_bytes));
    shared_bytes_per_block_ =
        std::max(ask(query::max_shared_bytes_per_block_optin), ask(query::max_shared_bytes_per_block));
    properties_.set("shared_bytes_per_block", shared_bytes_per_block_);
    properties_.set("shared_bytes_per_multiprocessor", ask(query::max_shared_bytes_per_multiprocessor));
    properties_.set("registers_per_multiprocessor", ask(query::max_registers_per_multiprocessor));
    properties_.set("threads_per_multiprocessor", ask(query::max_threads_per_multiprocessor));
    properties_.set("max_threads_per_block", ask(query::max_threads_per_block));
    properties_.set("warp_size", ask(query::warp_size));
    properties_.set("clock_khz", ask(query::clock_khz));
    properties_.set("compute_capability", compute_capability_);
    properties_.set("cluster_launch", clusters_ ? 1 : 0);
    properties_.set("cooperative_launch", cooperative_ ? 1 : 0);
    properties_.set("tensor_maps", ask(query::tensor_maps));
    properties_.set("driver_version", driver_version_);
  }

  std::shared_ptr<const api> driver_;
  int ordinal_ = 0;
  CUctx_st* context_ = nullptr;
  bool primary_ = false;
  bool cooperative_ = false;
  bool clusters_ = false;
  bool programmatic_ = false;
  int compute_capability_ = 0;
  int driver_version_ = 0;
  std::int64_t shared_bytes_per_block_ = 0;
  device_properties properties_;
  std::mutex configure_mutex_;
};

namespace detail {

/// The devices that are in use, by context, so that one context has one device.
class registry {
 public:
  [[nodiscard]] static registry& instance() {
    static registry all;
    return all;
  }

  /// The device of a context. `retained` says that the caller retained the primary context for it.
  [[nodiscard]] std::shared_ptr<device> device_of(const std::shared_ptr<const api>& driver, int ordinal,
                                                  CUctx_st* context, bool retained) {
    const std::scoped_lock lock{mutex_};
    // Contexts of the past may have had the same address, but not the same number.
    unsigned long long id = 0;
    if (driver->ctx_get_id == nullptr || driver->ctx_get_id(context, &id) != result::success)
      id = reinterpret_cast<std::uintptr_t>(context);
    std::erase_if(devices_, [](const auto& entry) { return entry.second.expired(); });
    auto& entry = devices_[{driver.get(), ordinal, id}];
    if (auto known = entry.lock()) {
      if (retained) driver->primary_ctx_release(ordinal);
      return known;
    }
    auto made = std::make_shared<device>(driver, ordinal, context, retained);
    entry = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<const api*, int, unsigned long long>, std::weak_ptr<device>> devices_;
};

inline void require(const api& driver, int code, const std::string& what) {
  if (code == result::success) return;
  const error_code number = code == result::no_device || code == result::invalid_device
                                ? error_code::no_device
                                : error_code::driver_failed;
  throw driver_error{number, what + ": " + describe(driver, code)};
}

/// The device of a context that is some thread's or stream's.
[[nodiscard]] inline std::shared_ptr<device> adopt(const std::shared_ptr<const api>& driver,
                                                   CUctx_st* context) {
  int ordinal = 0;
  {
    const context_guard guard{*driver, context};
    require(*driver, guard.status(), "cannot make a CUDA context current");
    require(*driver, driver->ctx_get_device(&ordinal), "a CUDA context does not tell its device");
  }
  unsigned flags = 0;
  int active = 0;
  if (driver->primary_ctx_get_state(ordinal, &flags, &active) == result::success && active != 0) {
    CUctx_st* primary = nullptr;
    if (driver->primary_ctx_retain(&primary, ordinal) == result::success) {
      if (primary == context) return registry::instance().device_of(driver, ordinal, context, true);
      driver->primary_ctx_release(ordinal);
    }
  }
  return registry::instance().device_of(driver, ordinal, context, false);
}

}  // namespace detail

/// How many devices there are: at least one. Throws driver_error as open_driver does.
[[nodiscard]] inline int count(const options& how = {}) {
  const auto driver = open_driver(how);
  int devices = 0;
  detail::require(*driver, driver->device_get_count(&devices), "cannot count the CUDA devices");
  if (devices < 1) throw driver_error{error_code::no_device, how.library + " finds no CUDA device"};
  return devices;
}

/// A device in its primary context. Throws driver_error: no_device when there is no such ordinal, or as
/// open_driver does.
[[nodiscard]] inline std::shared_ptr<device> open(int ordinal, const options& how = {}) {
  const int devices = count(how);
  if (ordinal < 0 || ordinal >= devices) {
    throw driver_error{error_code::no_device, "CUDA device " + std::to_string(ordinal) +
                                                  " was asked for; there are " + std::to_string(devices) +
                                                  ", counted from 0"};
  }
  const auto driver = open_driver(how);
  int number = 0;
  CUctx_st* context = nullptr;
  detail::require(*driver, driver->device_get(&number, ordinal), "CUDA device " + std::to_string(ordinal));
  detail::require(*driver, driver->primary_ctx_retain(&context, number),
                  "the primary context of CUDA device " + std::to_string(ordinal));
  return detail::registry::instance().device_of(driver, number, context, true);
}

/// The device of the calling thread's context; device 0 in its primary context where the thread has none, as
/// CUDA's runtime would have it.
[[nodiscard]] inline std::shared_ptr<device> current(const options& how = {}) {
  const auto driver = open_driver(how);
  CUctx_st* context = nullptr;
  detail::require(*driver, driver->ctx_get_current(&context), "the calling thread's CUDA context");
  return context == nullptr ? open(0, how) : detail::adopt(driver, context);
}

/// The device of a stream. The default streams (null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) belong to the
/// calling thread's context; a green context's streams to its device's primary context.
[[nodiscard]] inline std::shared_ptr<device> of(stream where, const options& how = {}) {
  const auto driver = open_driver(how);
  if (is_default(where)) return current(how);
  CUctx_st* context = nullptr;
  detail::require(*driver, detail::context_of(*driver, where, &context),
                  "a stream does not tell its CUDA context");
  return detail::adopt(driver, context);
}

/// Tells streams apart by their contexts. The driver refuses a kernel on a stream of another context than its
/// module's.
class router final : public stream_router {
 public:
  /// Throws driver_error as open_driver does.
  explicit router(options how = {}) : how_{std::move(how)}, driver_{open_driver(how_)} {}

  [[nodiscard]] v0::device of(stream where) override { return v0::device{cuda::of(where, how_)}; }
  [[nodiscard]] std::uintptr_t key(stream where) noexcept override {
    constexpr std::uintptr_t no_context = 1;  // of device 0's primary context, as `current` has it
    CUctx_st* context = nullptr;
    const bool is_current = is_default(where);
    const int code =
        is_current ? driver_->ctx_get_current(&context) : detail::context_of(*driver_, where, &context);
    if (code != result::success) return 0;
    return context == nullptr ? (is_current ? no_context : 0) : reinterpret_cast<std::uintptr_t>(context);
  }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return true; }

 private:
  options how_;
  std::shared_ptr<const api> driver_;
};

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
