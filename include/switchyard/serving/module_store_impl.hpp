// SPDX-License-Identifier: MIT
// The bodies of module_store.hpp.
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

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/parameters/check_parameters.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD function_handle loaded_module::find(const launch& of) {
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

SWITCHYARD_COLD function_handle loaded_module::find_known(const launch& of) const {
  const std::scoped_lock lock{mutex_};
  const auto known = kernels_.find(of.kernel);
  if (known == kernels_.end()) return nullptr;
  if (known->second.tells_parameters) check_parameters(of, known->second.parameters);
  return known->second.function;
}

SWITCHYARD_COLD std::shared_ptr<module_store> module_store::of(const std::shared_ptr<device_driver>& driver) {
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

SWITCHYARD_COLD loaded_kernel module_store::load(const launch& of) {
  const std::shared_ptr<entry> blob = entry_of(of.sha256);
  std::shared_ptr<loaded_module> found = blob->get();
  if (found == nullptr) {
    const std::scoped_lock lock{blob->loading};
    found = blob->get();
    if (found == nullptr) blob->set(found = load_module(of));
  }
  return {found->find(of), found};
}

SWITCHYARD_COLD loaded_kernel module_store::find_loaded(const launch& of) {
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

SWITCHYARD_COLD std::size_t module_store::unload_unused() {
  std::vector<std::shared_ptr<entry>> unused;
  {
    const std::scoped_lock lock{mutex_};
    for (auto kept = entries_.begin(); kept != entries_.end();) {
      // Under the lock nobody can obtain the entry; one that a loading thread holds has a second owner.
      const bool is_unused = kept->second.use_count() == 1 && kept->second->is_unused();
      if (is_unused) unused.push_back(std::move(kept->second));
      kept = is_unused ? entries_.erase(kept) : std::next(kept);
    }
  }
  std::size_t count = 0;
  for (const auto& module : unused) count += module->get() != nullptr ? 1U : 0U;
  return count;
}

SWITCHYARD_COLD std::shared_ptr<loaded_module> module_store::entry::get() const {
  const std::scoped_lock lock{mutex_};
  return loaded_;
}

SWITCHYARD_COLD void module_store::entry::set(std::shared_ptr<loaded_module> loaded) {
  const std::scoped_lock lock{mutex_};
  loaded_ = std::move(loaded);
}

SWITCHYARD_COLD bool module_store::entry::is_unused() const {
  const std::scoped_lock lock{mutex_};
  return loaded_.use_count() <= 1;
}

SWITCHYARD_COLD std::shared_ptr<module_store::entry> module_store::entry_of(const std::string& sha256) {
  const std::scoped_lock lock{mutex_};
  std::shared_ptr<entry>& found = entries_[sha256];
  if (found == nullptr) found = std::make_shared<entry>();
  return found;
}

SWITCHYARD_COLD std::shared_ptr<loaded_module> module_store::load_module(const launch& of) {
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

}  // namespace v0
}  // namespace switchyard
