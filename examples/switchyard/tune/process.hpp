// SPDX-License-Identifier: MIT
// The tuner's side of a measuring process: starts it, sends requests with a time limit, and restarts it when
// it dies.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/devices/device.hpp>
#include <switchyard/hardware/device_properties.hpp>

#include "command.hpp"

namespace tool {

inline constexpr const char* worker_command = "tune-worker";

/// Identifies a device of this machine, so that another process opens the same one.
struct device_place {
  std::string backend;  ///< "cuda", "hip" or "host"
  int ordinal = 0;

  [[nodiscard]] std::string text() const { return backend + ":" + std::to_string(ordinal); }
};

/// "cuda:1". Throws usage_error.
[[nodiscard]] device_place parse_device_place(const std::string& text);
[[nodiscard]] switchyard::device open_device(const device_place& place);

/// The devices that --devices names: "all", "" (the first), numbers, or "host". A separate process counts the
/// devices, so that the tuner itself opens none.
[[nodiscard]] std::vector<device_place> require_devices(const std::string& wanted);

/// Why a worker process ended or cannot be used any more.
class worker_lost : public std::runtime_error {
 public:
  enum class kind { crash, hang, garbage, interrupted };
  worker_lost(kind why, const std::string& text) : std::runtime_error{text}, why_{why} {}
  [[nodiscard]] kind why() const noexcept { return why_; }

 private:
  kind why_;
};

class worker_process {
 public:
  using clock = std::chrono::steady_clock;

  /// Waiting for an answer ends when `interrupted` becomes true.
  worker_process(const session& session, std::string operator_name, device_place place,
                 const std::atomic<bool>& interrupted);
  worker_process(const worker_process&) = delete;
  worker_process& operator=(const worker_process&) = delete;
  ~worker_process() { kill(); }

  /// Starts the process unless one runs. Throws switchyard::driver_error if the device cannot be used.
  void start(std::chrono::duration<double> limit);
  [[nodiscard]] bool running() const noexcept { return pid_ > 0; }
  void kill() noexcept;

  /// Sends a request and waits for its answer. Throws worker_lost after the process ended.
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& request, std::chrono::duration<double> limit);

  /// The device as the process reported it.
  [[nodiscard]] const switchyard::device_properties& device() const noexcept { return device_; }
  [[nodiscard]] const device_place& place() const noexcept { return place_; }

 private:
  [[nodiscard]] nlohmann::json wait(std::chrono::duration<double> limit);
  [[noreturn]] void lose(worker_lost::kind why, const std::string& text);
  [[nodiscard]] std::string how_it_ended() noexcept;
  void read_output();
  [[nodiscard]] std::string last_words();

  std::vector<std::string> command_;
  device_place place_;
  const std::atomic<bool>& interrupted_;
  switchyard::device_properties device_;
  pid_t pid_ = -1;
  int requests_ = -1;
  int answers_ = -1;
  int output_ = -1;  ///< what the process prints, of which the end is kept
  std::string said_;
  std::string pending_;
};

/// Calls `work(index)` for each worker in a thread of its own, which then ends the worker: a worker process
/// ends with the thread that started it. Returns the first exception.
[[nodiscard]] std::exception_ptr run_workers(const std::vector<std::unique_ptr<worker_process>>& workers,
                                             const std::function<void(std::size_t)>& work);

}  // namespace tool
