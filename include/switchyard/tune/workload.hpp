// Arguments for a problem: tensors of random values and everything else that a call of an operator needs, so
// that the call has just the axis values asked for.
//
// Each operator specialises workload<Operator> in tune/workloads/. An engine does the same for its own
// operators to have them measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/driver.hpp>
#include <switchyard/dtype.hpp>
#include <switchyard/tune/memory.hpp>

namespace switchyard::inline v0::tune {

/// Axis values by name; those that are not asked for take the operator's usual ones.
class request {
 public:
  request() = default;
  explicit request(std::map<std::string, std::int64_t, std::less<>> values) : values_{std::move(values)} {}

  void set(std::string_view axis, std::int64_t value) { values_.insert_or_assign(std::string{axis}, value); }
  [[nodiscard]] std::int64_t get(std::string_view axis, std::int64_t otherwise) const {
    const auto found = values_.find(axis);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] bool flag(std::string_view axis) const { return get(axis, 0) != 0; }
  template <class Enumeration>
  [[nodiscard]] Enumeration as(std::string_view axis, Enumeration otherwise) const {
    return static_cast<Enumeration>(get(axis, static_cast<std::int64_t>(otherwise)));
  }

 private:
  std::map<std::string, std::int64_t, std::less<>> values_;
};

/// The tensors of one call. Addresses stay valid as long as it lives.
class tensors {
 public:
  tensors(std::shared_ptr<device_driver> driver, std::uint64_t seed)
      : driver_{std::move(driver)}, seed_{seed} {}

  /// `count` random elements.
  [[nodiscard]] void* random(dtype type, std::int64_t count) {
    return keep(random_tensor(driver_, type, static_cast<std::size_t>(count), seed_++));
  }
  /// Memory full of NaN, for results.
  [[nodiscard]] void* poisoned(dtype type, std::int64_t count) {
    device_buffer out{driver_, static_cast<std::size_t>(count * size_of(type))};
    out.fill(0xff);
    return keep(std::move(out));
  }
  /// A copy of host values.
  template <class Value>
  [[nodiscard]] Value* copy(const std::vector<Value>& values) {
    device_buffer out{driver_, values.size() * sizeof(Value)};
    if (!values.empty()) out.upload(values.data(), out.bytes());
    return static_cast<Value*>(keep(std::move(out)));
  }

 private:
  [[nodiscard]] void* keep(device_buffer buffer) {
    buffers_.push_back(std::move(buffer));
    return buffers_.back().data();
  }

  std::shared_ptr<device_driver> driver_;
  std::uint64_t seed_;
  std::vector<device_buffer> buffers_;
};

/// What a specialisation of workload provides.
template <class Operator>
struct workload;

/// A call, its tensors, and what it costs at the least.
template <class Operator>
struct prepared_call {
  typename Operator::arguments arguments;
  tensors memory;
  double bytes = 0;  ///< each input read once and each output written once
  double flops = 0;  ///< multiplications and additions of the definition
};

}  // namespace switchyard::inline v0::tune
