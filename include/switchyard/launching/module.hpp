// Blobs loaded on one device: each file once, checked against its hash, unloaded when nothing uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/file.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/plan.hpp>

namespace switchyard {
inline namespace v0 {

/// Largest blob that is read.
inline constexpr std::size_t max_blob_bytes = std::size_t{1} << 30U;

/// A loaded blob. The bytes live as long as the module: some drivers read from them later.
class module {
 public:
  module(std::shared_ptr<device_driver> driver, std::string bytes,
         const std::string& path) :driver_{std::move(driver)},
      bytes_{std::move(bytes)}, handle_{driver_->load(std::as_bytes(std::span{bytes_}), path)} {}
  module(const module&) = delete;
  module& operator=(const module&) = delete;
  ~module() { driver_->unload(handle_); }

  [[nodiscard]] module_handle handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<device_driver> driver_;
  std::string bytes_;
  module_handle handle_;
};

namespace detail {

[[nodiscard]] inline std::string format_slots(const std::vector<parameter>& parameters) {
  std::string out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out += ", ";
    out += parameters[i].text + " (" + std::to_string(parameters[i].bytes) + " bytes)";
  }
  return out;
}

}  // namespace detail

/// Compares a manifest's parameters with those that the driver reports for the kernel. Throws driver_error
/// parameter_mismatch naming kernel and parameter.
inline void check_parameters(const launch& what, const std::vector<parameter_slot>& found) {
  const auto fail = [&what](const std::string& problem) {
    throw driver_error{error_code::parameter_mismatch,
                       what.blob + ": kernel '" + what.kernel + "': " + problem +
                           ". The manifest does not belong to this blob: build both together"};
  };
  if (found.size() != what.parameters.size()) {
    fail("the manifest has " + std::to_string(what.parameters.size()) + " parameters, the kernel takes " +
         std::to_string(found.size()) + " (" + detail::format_slots(what.parameters) + ")");
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].bytes == what.parameters[i].bytes) continue;
    fail("parameter " + std::to_string(i) + ", " + what.parameters[i].text + ", has " +
         std::to_string(what.parameters[i].bytes) + " bytes in the manifest and " +
         std::to_string(found[i].bytes) + " in the kernel");
  }
}

/// The blobs loaded on one device.
class module_store final : public kernel_loader {
 public:
  explicit module_store(std::shared_ptr<device_driver> driver) : driver_{std::move(driver)} {}

  [[nodiscard]] device_driver& driver() const noexcept override { return *driver_; }

  [[nodiscard]] loaded_kernel load(const launch& what) override {
    loaded_kernel out;
    const std::shared_ptr<module> from = load_module(what);
    try {
      out.function = driver_->find(from->handle(), what.kernel);
    } catch (const driver_error& problem) {
      throw driver_error{problem.code(), what.blob + ": " + std::string{problem.message()}};
    }
    out.module = from;
    std::vector<parameter_slot> slots;
    if (driver_->parameters(out.function, slots)) check_parameters(what, slots);
    return out;
  }

 private:
  struct entry {
    std::string sha256;
    std::weak_ptr<module> loaded;
  };

  [[nodiscard]] std::shared_ptr<module> load_module(const launch& what) {
    const std::scoped_lock lock{mutex_};
    std::size_t kept = 0;
    std::shared_ptr<module> found;
    for (entry& each : entries_) {
      auto loaded = each.loaded.lock();
      if (loaded == nullptr) continue;
      if (each.sha256 == what.sha256) found = std::move(loaded);
      if (&entries_[kept] != &each) entries_[kept] = std::move(each);
      ++kept;
    }
    entries_.resize(kept);
    if (found != nullptr) return found;

    std::string bytes;
    try {
      bytes = read_file(what.blob, max_blob_bytes);
    } catch (const file_error& problem) {
      throw driver_error{error_code::blob_missing, std::string{problem.message()} + ". Kernel '" +
                                                       what.kernel +
                                                       "' is in it: install it beside its manifest"};
    }
    const std::string digest = sha256(std::as_bytes(std::span{bytes}));
    if (digest != what.sha256) {
      throw driver_error{error_code::blob_hash_differs,
                         what.blob + ": has SHA-256 " + digest + ", but the manifest pins " + what.sha256 +
                             ". It was changed or cut off: install it again together with its manifest"};
    }
    found = std::make_shared<module>(driver_, std::move(bytes), what.blob);
    entries_.push_back({what.sha256, found});
    return found;
  }

  std::shared_ptr<device_driver> driver_;
  std::mutex mutex_;
  std::vector<entry> entries_;
};

}  // namespace v0
}  // namespace switchyard
