// Blobs loaded on one device: each content once, checked against its hash, and loaded until it is given back.
//
// What was loaded stays loaded, since a captured graph may replay it at any time: memory is flat for a finite
// set of blobs. Any thread may enter. No lock is held while a driver loads or unloads, except the one of the
// blob that is being loaded: only callers that need this very blob wait for it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/file.hpp>
#include <switchyard/base/lock.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/launching/check_parameters.hpp>
#include <switchyard/launching/kernel_loader.hpp>

namespace switchyard {
inline namespace v0 {

/// Largest blob that is read.
inline constexpr std::size_t max_blob_bytes = std::size_t{1} << 30U;

/// A blob that a driver has loaded. The bytes live as long as the module: some drivers read from them later.
class loaded_module {
 public:
  loaded_module(std::shared_ptr<device_driver> driver, std::string bytes, const std::string& path)
      : driver_{std::move(driver)},
        bytes_{std::move(bytes)},
        handle_{driver_->load(std::as_bytes(std::span{bytes_}), path)} {}
  loaded_module(const loaded_module&) = delete;
  loaded_module& operator=(const loaded_module&) = delete;
  ~loaded_module() { driver_->unload(handle_); }

  /// A kernel of the module. Found once; later requests do not reach the driver. Throws driver_error.
  [[nodiscard]] function_handle find(const launch& of) {
    if (function_handle const known = find_known(of)) return known;
    kernel fresh;
    try {
      fresh.function = driver_->find(handle_, of.kernel);
    } catch (const driver_error& problem) {
      throw driver_error{problem.code(), of.blob + ": " + std::string{problem.message()}, problem.kind()};
    }
    fresh.tells_parameters = driver_->parameters(fresh.function, fresh.parameters);
    {
      const std::scoped_lock lock{mutex_};
      kernels_.try_emplace(of.kernel, std::move(fresh));
    }
    return find_known(of);
  }

  /// The same without a call to the driver; null for a kernel that was not found before.
  [[nodiscard]] function_handle find_known(const launch& of) const {
    const std::scoped_lock lock{mutex_};
    const auto known = kernels_.find(of.kernel);
    if (known == kernels_.end()) return nullptr;
    if (known->second.tells_parameters) check_parameters(of, known->second.parameters);
    return known->second.function;
  }

 private:
  struct kernel {
    function_handle function = nullptr;
    std::vector<parameter_slot> parameters;
    bool tells_parameters = false;
  };

  std::shared_ptr<device_driver> driver_;
  std::string bytes_;
  module_handle handle_;
  mutable switchyard::mutex mutex_;  // never held while the driver works
  std::map<std::string, kernel, std::less<>> kernels_;
};

class module_store final : public kernel_loader {
 public:
  explicit module_store(std::shared_ptr<device_driver> driver) : driver_{std::move(driver)} {}

  /// The store that every catalog of this program uses for a device. It lives until the program ends, and
  /// with it the device and what was loaded there: a graph may outlive the catalog that loaded its kernels.
  [[nodiscard]] static std::shared_ptr<module_store> of(const std::shared_ptr<device_driver>& driver) {
    struct all_stores {
      switchyard::mutex mutex;
      std::map<const device_driver*, std::shared_ptr<module_store>> by_driver;
    };
    static auto& all = *new all_stores;  // NOLINT(cppcoreguidelines-owning-memory): never destroyed
    const std::scoped_lock lock{all.mutex};
    std::shared_ptr<module_store>& store = all.by_driver[driver.get()];
    if (store == nullptr) store = std::make_shared<module_store>(driver);
    return store;
  }

  [[nodiscard]] device_driver& driver() const noexcept override { return *driver_; }

  [[nodiscard]] loaded_kernel load(const launch& of) override {
    const std::shared_ptr<entry> blob = entry_of(of.sha256);
    std::shared_ptr<loaded_module> found = blob->get();
    if (found == nullptr) {
      const std::scoped_lock lock{blob->loading};
      found = blob->get();
      if (found == nullptr) blob->set(found = load_module(of));
    }
    return {found->find(of), found};
  }

  [[nodiscard]] loaded_kernel find_loaded(const launch& of) override {
    std::shared_ptr<entry> blob;
    {
      const std::scoped_lock lock{mutex_};
      const auto known = entries_.find(of.sha256);
      if (known != entries_.end()) blob = known->second;
    }
    if (blob == nullptr) return {};
    const std::shared_ptr<loaded_module> found = blob->get();
    if (found == nullptr) return {};
    return {found->find_known(of), found};
  }

  /// Unloads the modules that nothing refers to; returns how many. See catalog::unload_unused.
  std::size_t unload_unused() {
    std::vector<std::shared_ptr<entry>> unused;
    {
      const std::scoped_lock lock{mutex_};
      for (auto each = entries_.begin(); each != entries_.end();) {
        // Under the lock nobody can obtain the entry; one that a loading thread holds has a second owner.
        const bool is_unused = each->second.use_count() == 1 && each->second->is_unused();
        if (is_unused) unused.push_back(std::move(each->second));
        each = is_unused ? entries_.erase(each) : std::next(each);
      }
    }
    std::size_t count = 0;
    for (const auto& each : unused) count += each->get() != nullptr ? 1U : 0U;
    return count;
  }

 private:
  /// One content, loaded or not.
  class entry {
   public:
    switchyard::mutex loading;  // held while the driver loads it

    [[nodiscard]] std::shared_ptr<loaded_module> get() const {
      const std::scoped_lock lock{mutex_};
      return loaded_;
    }
    void set(std::shared_ptr<loaded_module> loaded) {
      const std::scoped_lock lock{mutex_};
      loaded_ = std::move(loaded);
    }
    [[nodiscard]] bool is_unused() const {
      const std::scoped_lock lock{mutex_};
      return loaded_.use_count() <= 1;
    }

   private:
    mutable switchyard::mutex mutex_;  // never held while the driver works
    std::shared_ptr<loaded_module> loaded_;
  };

  [[nodiscard]] std::shared_ptr<entry> entry_of(const std::string& sha256) {
    const std::scoped_lock lock{mutex_};
    std::shared_ptr<entry>& found = entries_[sha256];
    if (found == nullptr) found = std::make_shared<entry>();
    return found;
  }

  [[nodiscard]] std::shared_ptr<loaded_module> load_module(const launch& of) {
    std::string bytes;
    try {
      bytes = read_file(of.blob, max_blob_bytes);
    } catch (const file_error& problem) {
      // Descriptors, memory and file systems come back; a file that is not there does not.
      const bool may_pass = problem.cause() != 0 && problem.cause() != ENOENT && problem.cause() != ENOTDIR;
      const failure_kind kind = may_pass ? failure_kind::transient : failure_kind::permanent;
      throw driver_error{error_code::blob_missing,
                         std::string{problem.message()} + ". Kernel '" + of.kernel +
                             "' is in it: install it beside its manifest",
                         kind};
    } catch (const std::bad_alloc&) {
      throw driver_error{error_code::out_of_memory, of.blob + ": no host memory to read it",
                         failure_kind::transient};
    }
    const std::string digest = sha256(std::as_bytes(std::span{bytes}));
    if (digest != of.sha256) {
      throw driver_error{error_code::blob_hash_differs,
                         of.blob + ": has SHA-256 " + digest + ", but the manifest pins " + of.sha256 +
                             ". It was changed or cut off: install it again together with its manifest"};
    }
    return std::make_shared<loaded_module>(driver_, std::move(bytes), of.blob);
  }

  std::shared_ptr<device_driver> driver_;
  switchyard::mutex mutex_;  // never held while a file is read or a driver works
  std::map<std::string, std::shared_ptr<entry>, std::less<>> entries_;
};

}  // namespace v0
}  // namespace switchyard
