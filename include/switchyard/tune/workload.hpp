// SPDX-License-Identifier: MIT
// Arguments for a problem: tensors of random values and everything else that a call of an operator needs, so
// that the call has exactly the axis values asked for.
//
// Each operator specialises workload<Operator> in tune/workloads/. An engine does the same for its own
// operators to have them measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/memory.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// How the values and layout of a call differ from those that are timed, so that a kernel which serves only
/// the usual ones is found out.
struct variation {
  float spread = 1;        ///< of random values
  std::int64_t apart = 0;  ///< elements between rows, or between tokens
  bool options = false;    ///< what is no axis (scales, epsilons, lengths) is off its default
  bool shifted = false;    ///< tensors begin one element behind an aligned address
};

/// Axis values by name; those that are not asked for take the operator's usual ones.
class request {
 public:
  request() = default;
  explicit request(std::map<std::string, std::int64_t, std::less<>> values) : values_{std::move(values)} {}

  void vary(const variation& by) noexcept { variation_ = by; }
  [[nodiscard]] const variation& varied() const noexcept { return variation_; }
  void set(std::string_view axis, std::int64_t value) { values_.insert_or_assign(std::string{axis}, value); }
  [[nodiscard]] std::int64_t get(std::string_view axis, std::int64_t otherwise) const {
    const auto found = values_.find(axis);
    if (found == values_.end()) return otherwise;
    read_.insert(found->first);
    return found->second;
  }
  [[nodiscard]] bool flag(std::string_view axis) const { return get(axis, 0) != 0; }
  template <class Enumeration>
  [[nodiscard]] Enumeration as(std::string_view axis, Enumeration otherwise) const {
    return static_cast<Enumeration>(get(axis, static_cast<std::int64_t>(otherwise)));
  }
  /// A name that nothing has asked for and `known(name)` denies; empty where there is none.
  template <class Known>
  [[nodiscard]] std::string find_unread(const Known& known) const {
    for (const auto& [name, value] : values_) {
      if (!read_.contains(name) && !known(name)) return name;
    }
    return {};
  }

 private:
  std::map<std::string, std::int64_t, std::less<>> values_;
  mutable std::set<std::string, std::less<>> read_;
  variation variation_;
};

/// The tensors of one call. Addresses stay valid as long as it lives. Before and behind each lies a margin
/// that no kernel may touch, and each knows how it was filled, so that it can be filled again, on the host
/// too.
class tensors {
 public:
  static constexpr std::size_t margin_bytes = 256;
  static constexpr std::uint8_t margin_byte = 0xa5;

  /// A tensor and how it was filled: by a seed, by host values, or else with NaN.
  struct tensor {
    device_buffer memory;   ///< with both margins
    std::size_t bytes = 0;  ///< without them
    dtype type = dtype::f32;
    std::uint64_t seed = 0;
    bool is_random = false;
    std::vector<std::byte> given;
    float spread = 1;
    std::size_t before = margin_bytes;  ///< bytes of the margin in front

    [[nodiscard]] std::byte* data() const noexcept { return memory.data<std::byte>() + before; }
    void fill(std::uint8_t byte) { memory.fill(byte, before, bytes); }
    void fill_margins() {
      memory.fill(margin_byte, 0, before);
      memory.fill(margin_byte, before + bytes);
    }
    void upload(const void* from) {
      if (bytes > 0) memory.upload(from, bytes, before);
    }
    void download(void* to, std::size_t count, std::size_t first = 0) const {
      memory.download(to, count, before + first);
    }

    [[nodiscard]] bool is_result() const noexcept { return !is_random && given.empty(); }
    [[nodiscard]] std::vector<std::byte> initial() const {
      if (is_random)
        return random_tensor(type, bytes / static_cast<std::size_t>(size_of(type)), seed, spread);
      return is_result() ? std::vector<std::byte>(bytes, std::byte{0xff}) : given;
    }
  };

  tensors(std::shared_ptr<device_driver> driver, std::uint64_t seed, const variation& varied = {})
      : driver_{std::move(driver)}, seed_{seed}, varied_{varied} {}

  /// To be asked before extents are multiplied. Throws call_error invalid_argument where one is negative,
  /// driver_error out_of_memory where a tensor of them is larger than the device.
  void require_room(dtype type, std::initializer_list<std::int64_t> extents) const {
    const std::int64_t known = driver_->properties().attribute("memory_bytes");
    std::int64_t bytes = size_of(type);
    bool fits = true;
    std::string shape;
    for (const std::int64_t extent : extents) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
      if (extent < 0)
        throw call_error{error_code::invalid_argument, "a tensor cannot have " + shape + " elements"};
      fits = fits && !__builtin_mul_overflow(bytes, extent > 0 ? extent : 1, &bytes);
    }
    if (fits && bytes <= (known > 0 ? known : std::int64_t{1} << 56)) return;
    throw driver_error{error_code::out_of_memory,
                       "a tensor of " + shape + " elements is too large: " + driver_->properties().name +
                           " has " + std::to_string(known) + " bytes of memory; measure a smaller problem"};
  }

  /// `count` random elements, of the variation's spread or of one that it leaves alone.
  [[nodiscard]] void* random(dtype type, std::int64_t count) { return random(type, count, varied_.spread); }
  [[nodiscard]] void* random(dtype type, std::int64_t count, float spread) {
    const auto bytes = static_cast<std::size_t>(count * size_of(type));
    const std::size_t before = before_of(type);
    return keep({random_tensor(driver_, type, static_cast<std::size_t>(count), seed_, before, spread),
                 bytes,
                 type,
                 seed_++,
                 true,
                 {},
                 spread,
                 before});
  }
  /// Memory full of NaN, for results.
  [[nodiscard]] void* poisoned(dtype type, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count * size_of(type));
    const std::size_t before = before_of(type);
    device_buffer out{driver_, bytes + 2 * before};
    out.fill(0xff);
    return keep({std::move(out), bytes, type, 0, false, {}, 1, before});
  }
  /// A copy of host values.
  template <class Value>
  [[nodiscard]] Value* copy(const std::vector<Value>& values) {
    const auto* const from = reinterpret_cast<const std::byte*>(values.data());
    std::vector<std::byte> given(from, from + values.size() * sizeof(Value));
    device_buffer out{driver_, given.size() + 2 * margin_bytes};
    if (!given.empty()) out.upload(given.data(), given.size(), margin_bytes);
    const std::size_t bytes = given.size();
    return static_cast<Value*>(keep({std::move(out), bytes, dtype::f32, 0, false, std::move(given)}));
  }
  /// Values of the type, rounded from f64.
  [[nodiscard]] void* copy(dtype type, const std::vector<double>& values) {
    std::vector<std::byte> given(values.size() * static_cast<std::size_t>(size_of(type)));
    for (std::size_t i = 0; i < values.size(); ++i)
      reference::store(type, given.data(), static_cast<std::int64_t>(i), values[i]);
    return copy(given);
  }

  /// The same as dense tensors, for the operators' `call`: random, for results, or with host values.
  template <std::size_t Rank>
  [[nodiscard]] switchyard::tensor input(dtype type, const std::int64_t (&extents)[Rank]) {
    return {random(type, count_of(extents)), type, extents};
  }
  template <std::size_t Rank>
  [[nodiscard]] switchyard::tensor input(dtype type, const std::int64_t (&extents)[Rank], float spread) {
    return {random(type, count_of(extents), spread), type, extents};
  }
  template <std::size_t Rank>
  [[nodiscard]] switchyard::tensor output(dtype type, const std::int64_t (&extents)[Rank]) {
    return {poisoned(type, count_of(extents)), type, extents};
  }
  template <class Value, std::size_t Rank>
  [[nodiscard]] switchyard::tensor copied(const std::vector<Value>& values,
                                          const std::int64_t (&extents)[Rank]) {
    return {std::span{copy(values), values.size()}, extents};
  }

  [[nodiscard]] const std::vector<tensor>& all() const noexcept { return all_; }
  [[nodiscard]] std::vector<tensor>& all() noexcept { return all_; }
  [[nodiscard]] const std::shared_ptr<device_driver>& driver() const noexcept { return driver_; }
  [[nodiscard]] const variation& varied() const noexcept { return varied_; }

 private:
  [[nodiscard]] std::size_t before_of(dtype type) const noexcept {
    return margin_bytes + (varied_.shifted ? static_cast<std::size_t>(size_of(type)) : 0);
  }

  template <std::size_t Rank>
  [[nodiscard]] static std::int64_t count_of(const std::int64_t (&extents)[Rank]) {
    return const_tensor{nullptr, dtype::f32, extents}.count();
  }

  [[nodiscard]] void* keep(tensor made) {
    made.fill_margins();
    all_.push_back(std::move(made));
    return all_.back().data();
  }

  std::shared_ptr<device_driver> driver_;
  std::uint64_t seed_;
  variation varied_;
  std::vector<tensor> all_;
};

/// What a specialisation of workload provides:
///
///   static prepared_call<Operator> make(driver, const request&, seed);
///   static std::int64_t rows(const arguments&);      independent parts of the result
///   static double row_work(const arguments&);        multiplications and additions of the reference for one
///   static void expect(const arguments&, const row_sample&, expectation&);
///   static constexpr variation variations[];         optional: what else a winner is judged by
///   static void shrink(const arguments&, request&);  optional: a smaller problem to check instead
///
/// expect() says what the definition writes, with what may be wrong about it; its arguments point to host
/// copies of the tensors (see check.hpp).
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

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
