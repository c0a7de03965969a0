// SPDX-License-Identifier: MIT
// Runs every variant of an operator that may serve a call, on one device, through manifest and launch path.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/memory.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "catch.hpp"
#include "environment.hpp"

namespace switchyard::test {

/// What to test: the variable SWITCHYARD_TEST_DEVICE, which is host, cuda or hip; host where it is not set.
[[nodiscard]] inline const std::string& tested_kind() {
  static const std::string kind = [] {
    const char* const given = variable("SWITCHYARD_TEST_DEVICE");
    std::string wanted = given == nullptr ? "host" : given;
    if (wanted != "host" && wanted != "cuda" && wanted != "hip") {
      throw std::runtime_error{"SWITCHYARD_TEST_DEVICE=" + wanted + " is none of host, cuda and hip"};
    }
    return wanted;
  }();
  return kind;
}

/// The device that is tested. Ends the program as skipped where there is none.
[[nodiscard]] inline const device& tested_device() {
  static const device chosen = [] {
    const std::string& wanted = tested_kind();
    try {
      if (wanted == "cuda") return device{cuda::current()};
      if (wanted == "hip") return device{hip::current()};
    } catch (const driver_error& problem) {
      skip_program(problem.what());
    }
    return device::host();
  }();
  return chosen;
}

[[nodiscard]] inline catalog& tested_catalog() {
  static catalog shared;
  return shared;
}

[[nodiscard]] inline std::mt19937_64& random_source() {
  static std::mt19937_64 generator = [] { return std::mt19937_64{fresh_seed()}; }();
  return generator;
}

/// Whether to run a variant on this call: SWITCHYARD_TEST_SHARE times of a hundred, always unless that is
/// set, for tools under which a launch takes a second.
[[nodiscard]] inline bool sampled() {
  static const std::uint32_t share = number("SWITCHYARD_TEST_SHARE", 100);
  return random_source()() % 100 < share;
}

enum class side { host, device };

/// A tensor on the host and its twin on the device.
class tensor {
 public:
  tensor() = default;
  /// Random values in [-1, 1), `first` elements into its memory.
  [[nodiscard]] static tensor random(dtype type, std::int64_t count, std::int64_t first = 0) {
    tensor out{type, count, first};
    const auto values = tune::random_elements(type, static_cast<std::size_t>(count), random_source()());
    std::memcpy(out.host(), values.data(), values.size());
    out.upload();
    return out;
  }
  /// NaN everywhere.
  [[nodiscard]] static tensor poisoned(dtype type, std::int64_t count, std::int64_t first = 0) {
    tensor out{type, count, first};
    std::memset(out.bytes_.data(), 0xff, out.bytes_.size());
    out.upload();
    return out;
  }

  [[nodiscard]] void* host() noexcept { return bytes_.data() + offset(); }
  [[nodiscard]] void* device() const noexcept { return memory_.data<std::byte>() + offset(); }
  /// Either, as calls take it.
  template <std::size_t Rank>
  [[nodiscard]] switchyard::tensor view(side of, const std::int64_t (&extents)[Rank],
                                        const std::int64_t (&strides)[Rank]) {
    return {of == side::host ? host() : device(), type_, extents, strides};
  }
  template <std::size_t Rank>
  [[nodiscard]] switchyard::tensor view(side of, const std::int64_t (&extents)[Rank]) {
    return {of == side::host ? host() : device(), type_, extents};
  }
  [[nodiscard]] double at(std::int64_t index) const {
    return reference::load(type_, bytes_.data() + offset(), index);
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] dtype type() const noexcept { return type_; }

  void upload() { memory_.upload(bytes_.data(), bytes_.size()); }
  void download() { memory_.download(bytes_.data(), bytes_.size()); }
  void poison() {
    std::memset(bytes_.data(), 0xff, bytes_.size());
    upload();
  }

 private:
  tensor(dtype type, std::int64_t count, std::int64_t first)
      : type_{type},
        count_{count},
        first_{first},
        bytes_(static_cast<std::size_t>((count + first) * size_of(type))),
        memory_{tested_device().driver(), bytes_.size()} {}
  [[nodiscard]] std::size_t offset() const noexcept {
    return static_cast<std::size_t>(first_ * size_of(type_));
  }

  dtype type_ = dtype::f32;
  std::int64_t count_ = 0;
  std::int64_t first_ = 0;
  std::vector<std::byte> bytes_;
  tune::device_buffer memory_;
};

/// How many variants must serve each legal call: a small kernel set need not hold every type for a GPU.
[[nodiscard]] inline std::size_t least_variants() {
#ifdef SWITCHYARD_TEST_FULL_KERNELS
  return 1;
#else
  return tested_kind() == "host" ? 1 : 0;
#endif
}

/// The tested device's variants of an operator, with no tables.
template <operator_type Operator>
[[nodiscard]] const selector& tested_variants() {
  static const auto rules = [] {
    std::vector<std::string> warned;
    return build_selector({&describe<Operator>(),
                           tested_device().properties(),
                           tested_catalog().files(describe<Operator>()).manifests,
                           {},
                           {},
                           {}},
                          warned);
  }();
  return *rules;
}

/// Ends the program as skipped where the tested device has no variant of an operator: for the begin of each
/// case.
template <operator_type Operator>
void skip_without_variants() {
  if (!tested_variants<Operator>().candidates.empty()) return;
  skip_program("no variant of " + std::string{Operator::name} + " for " + tested_device().properties().arch);
}

/// How many variants for_each_variant ran so far.
[[nodiscard]] inline std::size_t& variants_run() {
  static std::size_t count = 0;
  return count;
}

/// Calls `visit(id, run)` for every variant that may serve the call on the tested device; `run()` runs it to
/// its end. Where calls are sampled, each variant is run on the first that it serves. Returns how many may
/// serve, whether they were run or not.
template <operator_type Operator, class Visit>
std::size_t for_each_variant(const typename Operator::arguments& call, const Visit& visit) {
  static const catalog::contents files = tested_catalog().files(describe<Operator>());
  static const auto modules = std::make_shared<module_store>(tested_device().driver());
  const selector& rules = tested_variants<Operator>();
  static std::set<std::uint32_t> met;  // of one name there may be several, for other types
  const auto problem = make_problem<Operator>(call);
  std::vector<std::string> done;
  for (std::uint32_t i = 0; i < rules.candidates.size(); ++i) {
    if (!rules.admissible(i, problem, {})) continue;
    const std::string& id = rules.candidates[i].variant->id;
    if (std::find(done.begin(), done.end(), id) != done.end()) continue;
    done.push_back(id);
    if (!met.insert(i).second && !sampled()) continue;
    record_variant(Operator::name, id);
    ++variants_run();
    tune::forced_source source{files, id, modules};
    dispatcher<Operator> run{source, tested_device()};
    visit(id, [&] {
      run({}, call);
      const status result = tested_device().driver()->synchronize({});
      if (result != 0) FAIL(id << ": " << tested_device().driver()->describe(result));
    });
  }
  return done.size();
}

/// Distance between neighbouring values of a type near 1.
[[nodiscard]] inline double epsilon(dtype type) {
  return type == dtype::bf16 ? 0x1p-7 : type == dtype::f16 ? 0x1p-10 : 0x1p-23;
}

/// Distance between neighbouring values of a type near 0, where f16 runs out of exponents.
[[nodiscard]] inline double smallest(dtype type) {
  return type == dtype::f16 ? 0x1p-24 : 0;
}

/// Worst of |found - wanted| over its allowance `relative * |wanted| + absolute`; anything above 1 is wrong,
/// and a value that is not a number is infinitely so.
class worst_error {
 public:
  void add(double found, double wanted, double relative, double absolute) {
    const double allowed = relative * std::abs(wanted) + absolute;
    const double share = std::abs(found - wanted) / allowed;
    if (!(share <= share_)) share_ = std::isnan(share) ? HUGE_VAL : share;
  }
  [[nodiscard]] double share() const noexcept { return share_; }

 private:
  double share_ = 0;
};

}  // namespace switchyard::test
