// The hip backend: one AMD GPU behind the interface of driver.hpp.
//
// HIP has no contexts worth the name: a thread has a current device. Any thread may call; the device is made
// current where it is not, and the thread's own is current again afterwards. Asking twice for the same device
// gives the same object.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forward_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/code_object.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

/// Has a device current on the calling thread until the end of the scope.
class device_guard {
 public:
  device_guard(const api& library, int device) noexcept : library_{library} {
    status_ = library_.get_device(&previous_);
    if (status_ == result::success && previous_ == device) [[likely]]
      return;
    restore_ = status_ == result::success;
    status_ = library_.set_device(device);
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;
  ~device_guard() {
    if (restore_) [[unlikely]]
      library_.set_device(previous_);
  }

  /// Not success when the device cannot be made current.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  const api& library_;
  int previous_ = 0;
  int status_ = result::success;
  bool restore_ = false;
};

/// Lets the calling thread load modules while streams are captured, where the library knows such a mode.
class relaxed_capture {
 public:
  explicit relaxed_capture(const api& library) noexcept : library_{library} {
    exchanged_ = library_.thread_exchange_stream_capture_mode != nullptr &&
                 library_.thread_exchange_stream_capture_mode(&mode_) == result::success;
  }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;
  ~relaxed_capture() {
    if (exchanged_) library_.thread_exchange_stream_capture_mode(&mode_);
  }

 private:
  const api& library_;
  int mode_ = capture::relaxed;
  bool exchanged_ = false;
};

namespace detail {

struct loaded_kernel {
  ihipModuleSymbol_t* function = nullptr;
  std::string name;
  std::optional<kernel_description> description;
};

struct loaded_module {
  ihipModule_t* module = nullptr;
  std::string name;
  std::optional<code_object> content;
  std::mutex mutex;
  std::forward_list<loaded_kernel> kernels;
};

[[nodiscard]] inline error_code load_error(int code) noexcept {
  if (code == result::out_of_memory) return error_code::out_of_memory;
  if (code >= result::stream_capture_unsupported && code <= result::captured_event)
    return error_code::load_during_capture;
  return error_code::blob_not_loadable;
}

}  // namespace detail

/// Whether it is the null stream, hipStreamLegacy or hipStreamPerThread, which are of the current device.
[[nodiscard]] inline bool is_default(stream where) noexcept {
  return reinterpret_cast<std::uintptr_t>(where.handle()) <= 2;
}

namespace detail {

/// The device of a stream that is no default one; nothing where the library does not tell.
[[nodiscard]] inline std::optional<int> device_of(const api& library, stream where) noexcept {
  auto* const handle = static_cast<ihipStream_t*>(where);
  int ordinal = -1;
  if (library.stream_get_device != nullptr) {
    if (library.stream_get_device(handle, &ordinal) == result::success) return ordinal;
    library.get_last_error();
  } else if (library.get_stream_device_id != nullptr) {
    ordinal = library.get_stream_device_id(handle);
  }
  return ordinal < 0 ? std::nullopt : std::optional{ordinal};
}

}  // namespace detail

class device final : public device_driver {
 public:
  /// Use open, current or of.
  device(std::shared_ptr<const api> library, int ordinal) : library_{std::move(library)}, ordinal_{ordinal} {
    read_properties();
  }

  /// The device's number, as hipSetDevice counts.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// The architecture is as the library spells it, features included: "gfx942:sramecc+:xnack-".
  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }

  /// Takes a code object or a bundle of them.
  [[nodiscard]] module_handle load(std::span<const std::byte> image, const std::string& name) override {
    if (kind_of(image) == image_kind::broken) {
      throw driver_error{
          error_code::blob_not_loadable,
          name + ": " + std::to_string(image.size()) +
              " bytes that are neither a whole code object nor a bundle of them: rebuild the blob"};
    }
    auto record = std::make_unique<detail::loaded_module>();
    record->name = name;
    if (const auto content = code_object_for(image, properties_))
      record->content = read_code_object(*content);
    const device_guard guard{*library_, ordinal_};
    require(guard.status(), "cannot make the device current");
    const relaxed_capture relaxed{*library_};
    if (const int code = library_->module_load_data(&record->module, image.data()); code != result::success) {
      library_->get_last_error();  // ours: not to be found by the engine
      std::string text = name + ": " + describe(code) + "; the device is " + properties_.arch + " (" +
                         properties_.name + ")";
      if (record->content && !record->content->target.empty())
        (text += ", the blob is for ") += record->content->target;
      throw driver_error{detail::load_error(code), text};
    }
    return record.release();
  }

  void unload(module_handle module) noexcept override {
    const std::unique_ptr<detail::loaded_module> record{static_cast<detail::loaded_module*>(module)};
    if (record == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    const relaxed_capture relaxed{*library_};
    if (guard.status() == result::success) library_->module_unload(record->module);
  }

  /// The handle is good until the module is unloaded.
  [[nodiscard]] function_handle find(module_handle module, const std::string& kernel) override {
    auto& record = *static_cast<detail::loaded_module*>(module);
    const device_guard guard{*library_, ordinal_};
    require(guard.status(), "cannot make the device current");
    const relaxed_capture relaxed{*library_};
    detail::loaded_kernel found{nullptr, kernel, std::nullopt};
    if (const int code = library_->module_get_function(&found.function, record.module, kernel.c_str());
        code != result::success) {
      library_->get_last_error();
      std::string text = record.name + " has no kernel '" + kernel + "': " + describe(code);
      if (record.content) {
        text += "; it has";
        for (const auto& other : record.content->kernels) (text += ' ') += other.name;
      }
      throw driver_error{code == result::not_found ? error_code::kernel_not_found : detail::load_error(code),
                         text};
    }
    if (record.content) {
      const auto& all = record.content->kernels;
      const auto description =
          std::ranges::find_if(all, [&](const kernel_description& one) { return one.name == kernel; });
      if (description != all.end()) found.description = *description;
    }
    const std::scoped_lock lock{record.mutex};
    return &record.kernels.emplace_front(std::move(found));
  }

  /// From the code object's metadata; false where the blob has none, or is a compressed bundle.
  [[nodiscard]] bool parameters(function_handle function, std::vector<parameter_slot>& out) override {
    out.clear();
    const auto& kernel = kernel_of(function);
    if (kernel.description) out = kernel.description->parameters;
    return kernel.description.has_value();
  }

  /// What the code object says of a kernel; nothing where `parameters` is false.
  [[nodiscard]] static const std::optional<kernel_description>& description(
      function_handle function) noexcept {
    return kernel_of(function).description;
  }

  /// There is nothing to set on these devices; refuses launches that could never succeed, with launch_failed.
  void configure(function_handle function, const launch_geometry& geometry) override {
    const auto& kernel = kernel_of(function);
    const auto refuse = [&](const std::string& what) {
      throw driver_error{error_code::launch_failed,
                         "kernel '" + kernel.name + "' " + what + " on " + properties_.name};
    };
    if (!(geometry.cluster == dim3{})) refuse("needs clusters, which are not there");
    if (geometry.cooperative && (!cooperative_ || library_->module_launch_cooperative_kernel == nullptr))
      refuse("needs cooperative launches, which are not there");
    std::int64_t fixed = 0;
    if (kernel.description) {
      fixed = kernel.description->shared_bytes;
      const auto threads = std::uint64_t{geometry.block.x} * geometry.block.y * geometry.block.z;
      const std::uint64_t most_threads = kernel.description->max_threads_per_block;
      if (most_threads != 0 && threads > most_threads) {
        refuse("takes at most " + std::to_string(most_threads) + " threads a block, not " +
               std::to_string(threads) + ",");
      }
    }
    if (fixed + geometry.shared_bytes > shared_bytes_per_block_) {
      refuse("needs " + std::to_string(fixed) + " + " + std::to_string(geometry.shared_bytes) +
             " bytes of shared memory a block; there are " + std::to_string(shared_bytes_per_block_));
    }
  }

  /// A programmatic dependent launch is an ordinary one here: it only allows an overlap.
  [[nodiscard]] status launch(function_handle function, const launch_geometry& geometry, void** parameters,
                              stream where) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) [[unlikely]]
      return guard.status();
    if (!(geometry.cluster == dim3{})) [[unlikely]]
      return result::not_supported;
    ihipModuleSymbol_t* const kernel = kernel_of(function).function;
    const dim3& grid = geometry.grid;
    const dim3& block = geometry.block;
    if (geometry.cooperative) {
      if (library_->module_launch_cooperative_kernel == nullptr) return result::not_supported;
      return library_->module_launch_cooperative_kernel(kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                        block.z, geometry.shared_bytes, handle(where),
                                                        parameters);
    }
    return library_->module_launch_kernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                          geometry.shared_bytes, handle(where), parameters, nullptr);
  }

  [[nodiscard]] status fill(void* address, std::uint8_t byte, std::size_t bytes,
                            stream where) noexcept override {
    if (bytes == 0) return result::success;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->memset_async(address, byte, bytes, handle(where));
  }

  [[nodiscard]] status copy(void* to, const void* from, std::size_t bytes, stream where) noexcept override {
    if (bytes == 0) return result::success;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->memcpy_async(to, from, bytes, copy_by_address, handle(where));
  }

  [[nodiscard]] status synchronize(stream where) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->stream_synchronize(handle(where));
  }

  [[nodiscard]] event_handle create_event() override {
    const device_guard guard{*library_, ordinal_};
    require(guard.status(), "cannot make the device current");
    ihipEvent_t* event = nullptr;
    require(library_->event_create(&event), "cannot create an event");
    return event;
  }
  void destroy_event(event_handle event) noexcept override {
    if (event == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() == result::success) library_->event_destroy(static_cast<ihipEvent_t*>(event));
  }
  [[nodiscard]] status record(event_handle event, stream where) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    return library_->event_record(static_cast<ihipEvent_t*>(event), handle(where));
  }
  [[nodiscard]] status elapsed(event_handle from, event_handle to, double& microseconds) noexcept override {
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return guard.status();
    auto* const last = static_cast<ihipEvent_t*>(to);
    if (const int code = library_->event_synchronize(last); code != result::success) return code;
    float milliseconds = 0;
    const int code = library_->event_elapsed_time(&milliseconds, static_cast<ihipEvent_t*>(from), last);
    if (code == result::success) microseconds = 1000 * static_cast<double>(milliseconds);
    return code;
  }

  [[nodiscard]] void* allocate(std::size_t bytes, stream where) noexcept override {
    if (library_->malloc_async == nullptr) return nullptr;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() != result::success) return nullptr;
    void* address = nullptr;
    if (library_->malloc_async(&address, std::max(bytes, std::size_t{1}), handle(where)) == result::success)
      return address;
    library_->get_last_error();
    return nullptr;
  }

  void release(void* address, stream where) noexcept override {
    if (address == nullptr || library_->free_async == nullptr) return;
    const device_guard guard{*library_, ordinal_};
    if (guard.status() == result::success) library_->free_async(address, handle(where));
  }

  /// These devices have no tensor maps: hipErrorNotSupported.
  [[nodiscard]] status encode(const tensor_map_request& /*request*/, void* /*map*/) noexcept override {
    return result::not_supported;
  }

  [[nodiscard]] bool capturing(stream where) const noexcept override {
    const device_guard guard{*library_, ordinal_};
    int state = capture::none;
    const int code = library_->stream_is_capturing(handle(where), &state);
    if (code != result::success) library_->get_last_error();
    if (code >= result::stream_capture_unsupported && code <= result::captured_event) return true;
    return code == result::success && state != capture::none;
  }

  [[nodiscard]] bool owns(stream where) const noexcept override {
    const auto ordinal = is_default(where) ? std::nullopt : detail::device_of(*library_, where);
    return !ordinal || *ordinal == ordinal_;
  }

  [[nodiscard]] std::string describe(status code) const override { return hip::describe(*library_, code); }

 private:
  [[nodiscard]] static const detail::loaded_kernel& kernel_of(function_handle function) noexcept {
    return *static_cast<const detail::loaded_kernel*>(function);
  }
  [[nodiscard]] static ihipStream_t* handle(stream where) noexcept {
    return static_cast<ihipStream_t*>(where);
  }

  void require(int code, const std::string& what) const {
    if (code == result::success) return;
    throw driver_error{error_code::driver_failed, properties_.name + ": " + what + ": " + describe(code)};
  }

  /// What the library calls the architecture; empty where it does not say.
  [[nodiscard]] std::string read_target() const {
    namespace layout = property_layout;
    const auto read = [this](int (*get)(void*, int), std::size_t offset) -> std::string {
      if (get == nullptr) return {};
      // More than the structure, so that a version of it that grew is not written past.
      auto properties = std::make_unique<std::array<std::uint64_t, layout::most_bytes / 8>>();
      if (get(properties->data(), ordinal_) != result::success) {
        library_->get_last_error();
        return {};
      }
      std::array<char, layout::architecture_bytes + 1> text{};
      std::memcpy(text.data(), reinterpret_cast<const std::byte*>(properties->data()) + offset,
                  layout::architecture_bytes);
      const std::string_view name{text.data()};
      const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               std::string_view{":+-_"}.find(c) != std::string_view::npos;
      };
      return std::ranges::all_of(name, allowed) ? std::string{name} : std::string{};
    };
    std::string name = read(library_->get_device_properties_r0600, layout::architecture_since_6);
    if (name.empty()) name = read(library_->get_device_properties, layout::architecture_before_6);
    return name;
  }

  void read_properties() {
    const auto ask = [this](int attribute) -> std::int64_t {
      int value = 0;
      if (library_->device_get_attribute(&value, attribute, ordinal_) == result::success) return value;
      library_->get_last_error();
      return 0;
    };
    std::array<char, 256> name{};
    if (library_->device_get_name(name.data(), static_cast<int>(name.size()) - 1, ordinal_) ==
        result::success)
      properties_.name = name.data();
    std::size_t memory_bytes = 0;
    require(library_->device_total_mem(&memory_bytes, ordinal_), "hipDeviceTotalMem");
    int version = 0;
    require(library_->runtime_get_version(&version), "hipRuntimeGetVersion");
    properties_.arch = read_target();
    if (properties_.arch.empty()) {
      throw driver_error{error_code::unsupported_device,
                         "HIP device " + std::to_string(ordinal_) + " (" + properties_.name + ", ROCm " +
                             version_text(version) +
                             ") does not tell its architecture, so it cannot be known what runs on it"};
    }

    namespace query = device_query;
    cooperative_ = ask(query::cooperative_launch) != 0;
    properties_.backend = "hip";
    properties_.set("multiprocessors", ask(query::multiprocessors));
    // Both edges of the clock carry data; for memory whose clock the library counts before a multiplier, such
    // as HBM3, this is too little.
    properties_.set("memory_bandwidth",
                    ask(query::memory_clock_khz) * 1000 * 2 * ask(query::memory_bus_bits) / 8);
    properties_.set("memory_bytes", static_cast<std::int64_t>(memory_bytes));
    properties_.set("l2_bytes", ask(query::l2_bytes));
    shared_bytes_per_block_ = ask(query::max_shared_bytes_per_block);
    properties_.set("shared_bytes_per_block", shared_bytes_per_block_);
    properties_.set("shared_bytes_per_multiprocessor", ask(query::max_shared_bytes_per_multiprocessor));
    properties_.set("threads_per_multiprocessor", ask(query::max_threads_per_multiprocessor));
    properties_.set("max_threads_per_block", ask(query::max_threads_per_block));
    properties_.set("warp_size", ask(query::warp_size));
    properties_.set("clock_khz", ask(query::clock_khz));
    properties_.set("cooperative_launch", cooperative_ ? 1 : 0);
    properties_.set("driver_version", version);
  }

  std::shared_ptr<const api> library_;
  int ordinal_ = 0;
  bool cooperative_ = false;
  std::int64_t shared_bytes_per_block_ = 0;
  device_properties properties_;
};

namespace detail {

inline void require(const api& library, int code, const std::string& what) {
  if (code == result::success) return;
  library.get_last_error();
  const error_code number = code == result::no_device || code == result::invalid_device
                                ? error_code::no_device
                                : error_code::driver_failed;
  throw driver_error{number, what + ": " + describe(library, code)};
}

}  // namespace detail

/// How many devices there are: at least one. Throws driver_error as open_driver does.
[[nodiscard]] inline int count(const options& how = {}) {
  const auto library = open_driver(how);
  int devices = 0;
  detail::require(*library, library->get_device_count(&devices), "cannot count the HIP devices");
  if (devices < 1) throw driver_error{error_code::no_device, "HIP finds no device; is /dev/kfd readable?"};
  return devices;
}

/// A device. Throws driver_error: no_device when there is no such ordinal, or as open_driver does.
[[nodiscard]] inline std::shared_ptr<device> open(int ordinal, const options& how = {}) {
  const int devices = count(how);
  if (ordinal < 0 || ordinal >= devices) {
    throw driver_error{error_code::no_device, "HIP device " + std::to_string(ordinal) +
                                                  " was asked for; there are " + std::to_string(devices) +
                                                  ", counted from 0"};
  }
  static std::mutex mutex;
  static std::map<std::pair<const api*, int>, std::weak_ptr<device>> opened;
  const auto library = open_driver(how);
  const std::scoped_lock lock{mutex};
  auto& entry = opened[{library.get(), ordinal}];
  if (auto known = entry.lock()) return known;
  auto made = std::make_shared<device>(library, ordinal);
  entry = made;
  return made;
}

/// The calling thread's current device.
[[nodiscard]] inline std::shared_ptr<device> current(const options& how = {}) {
  const auto library = open_driver(how);
  int ordinal = 0;
  detail::require(*library, library->get_device(&ordinal), "the calling thread's HIP device");
  return open(ordinal, how);
}

/// The device of a stream. The default streams (null, hipStreamLegacy, hipStreamPerThread) belong to the
/// calling thread's current device.
[[nodiscard]] inline std::shared_ptr<device> of(stream where, const options& how = {}) {
  const auto library = open_driver(how);
  if (is_default(where)) return current(how);
  if (library->stream_get_device == nullptr && library->get_stream_device_id == nullptr) return current(how);
  const auto ordinal = detail::device_of(*library, where);
  if (!ordinal) throw driver_error{error_code::driver_failed, "a stream does not tell its HIP device"};
  return open(*ordinal, how);
}

/// Tells streams apart by their devices, which are asked for at each call: it is not documented what a kernel
/// does on a stream of another device than its module's.
class router final : public stream_router {
 public:
  /// Throws driver_error as open_driver does.
  explicit router(options how = {}) : how_{std::move(how)}, library_{open_driver(how_)} {}

  [[nodiscard]] v0::device of(stream where) override { return v0::device{hip::of(where, how_)}; }
  [[nodiscard]] std::uintptr_t key(stream where) noexcept override {
    std::optional<int> ordinal;
    if (is_default(where)) {
      int current = 0;
      if (library_->get_device(&current) == result::success) ordinal = current;
    } else {
      ordinal = detail::device_of(*library_, where);
    }
    return ordinal ? static_cast<std::uintptr_t>(*ordinal) + 1 : 0;
  }
  [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return false; }

 private:
  options how_;
  std::shared_ptr<const api> library_;
};

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
