// SPDX-License-Identifier: MIT
// The reader of switchyard/named_call.hpp for the C API: an operator's arguments from those that a caller
// gives by name. A name that nobody reads is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/c_api.h>
#include <switchyard/named_call.hpp>
#include <switchyard/switchyard.hpp>

#include "c_api_function.hpp"

namespace switchyard::c_api {

/// The arguments of one call.
class named_arguments {
 public:
  static constexpr std::size_t max_arguments = 64;

  named_arguments(std::string_view op, const switchyard_argument* first, std::size_t count)
      : op_{op}, all_{first, count} {
    if (count > max_arguments)
      fail(std::string{op} + ": a call has at most " + std::to_string(max_arguments) + " arguments, not " +
           std::to_string(count));
    if (count > 0 && first == nullptr) fail(std::string{op} + ": arguments is null");
    for (const switchyard_argument& argument : all_) {
      if (argument.size < sizeof(switchyard_argument)) fail_size(op, "switchyard_argument", argument.size);
      if (argument.name == nullptr) fail(std::string{op} + ": an argument has no name");
    }
  }

  [[nodiscard]] switchyard::tensor tensor(std::string_view name) {
    const switchyard_argument* const found = find(name, SWITCHYARD_TENSOR, "a tensor");
    if (found == nullptr || found->tensor == nullptr) return {};
    const switchyard_tensor& from = *found->tensor;
    if (from.size < sizeof(switchyard_tensor)) fail_size(about(name), "switchyard_tensor", from.size);
    if (from.rank < 0 || from.rank > SWITCHYARD_MAX_RANK)
      fail(about(name) + " has " + std::to_string(from.rank) + " dimensions; at most 5 are possible");
    if (from.dtype < 0 || from.dtype > SWITCHYARD_I64)
      fail(about(name) + " has the unknown element type " + std::to_string(from.dtype));
    const auto rank = static_cast<std::size_t>(from.rank);
    return switchyard::tensor::from_spans(from.data, static_cast<dtype>(from.dtype), {from.extents, rank},
                                          {from.strides, rank});
  }

  /// A value of an option's type: an enumerator by its name, a bool as an integer.
  template <class Value>
  [[nodiscard]] Value value(std::string_view name, Value otherwise) {
    if constexpr (std::is_enum_v<Value>) {
      return choice(name, otherwise);
    } else if constexpr (std::is_pointer_v<Value>) {
      const switchyard_argument* const found = find(name, SWITCHYARD_POINTER, "a pointer");
      return found == nullptr ? otherwise : static_cast<Value>(found->pointer);
    } else if constexpr (std::is_floating_point_v<Value>) {
      const switchyard_argument* const found = find(name, SWITCHYARD_REAL, "a real number");
      return found == nullptr ? otherwise : static_cast<Value>(found->real);
    } else {
      const switchyard_argument* const found = find(name, SWITCHYARD_INTEGER, "an integer");
      if (found == nullptr) return otherwise;
      if constexpr (std::is_same_v<Value, bool>) {
        return found->integer != 0;
      } else {
        const auto out = static_cast<Value>(found->integer);
        if (static_cast<std::int64_t>(out) != found->integer)
          fail(about(name) + " is " + std::to_string(found->integer) + ", which does not fit");
        return out;
      }
    }
  }

  /// A matrix of weights: a pointer, the text `weights`, and the integers <name>_rows, <name>_columns and,
  /// where rows do not follow each other, <name>_stride_bytes.
  [[nodiscard]] operators::weight_matrix weights(std::string_view name) {
    const std::string begin{name};
    operators::weight_matrix out{
        value<const void*>(name, nullptr), value("weights", operators::weight_format::f32),
        value(begin + "_rows", std::int64_t{-1}), value(begin + "_columns", std::int64_t{-1})};
    if (out.rows < 0 || out.columns < 0)
      fail(about(name) + " needs " + begin + "_rows and " + begin + "_columns, which must not be negative");
    out.stride_bytes = value(begin + "_stride_bytes", out.stride());
    return out;
  }

  [[nodiscard]] bool has(std::string_view name) const {
    for (const switchyard_argument& argument : all_) {
      if (argument.name == name) return true;
    }
    return false;
  }

  /// Throws where an argument was not read.
  void require_all_read() const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if ((read_ >> i & 1U) == 0)
        fail(std::string{op_} + ": unknown or repeated argument '" + all_[i].name + "'");
    }
  }

 private:
  [[nodiscard]] std::string about(std::string_view name) const {
    return std::string{op_} + ": " + std::string{name};
  }

  [[nodiscard]] const switchyard_argument* find(std::string_view name, int kind, const char* kind_name) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].name != name) continue;
      read_ |= std::uint64_t{1} << i;
      if (all_[i].kind != kind) fail(about(name) + " must be " + kind_name);
      return &all_[i];
    }
    return nullptr;
  }

  template <class Enumeration>
  [[nodiscard]] Enumeration choice(std::string_view name, Enumeration otherwise) {
    const switchyard_argument* const found = find(name, SWITCHYARD_TEXT, "a text");
    if (found == nullptr) return otherwise;
    const std::string_view text = found->text == nullptr ? "" : found->text;
    std::string known;
    for (std::size_t i = 0; i < enumerator_names<Enumeration>.size(); ++i) {
      if (enumerator_names<Enumeration>[i] == text) return static_cast<Enumeration>(i);
      known += (i > 0 ? ", " : "") + std::string{enumerator_names<Enumeration>[i]};
    }
    fail(about(name) + " is '" + std::string{text} + "'; known are " + known);
  }

  std::string_view op_;
  std::span<const switchyard_argument> all_;
  std::uint64_t read_ = 0;
};

}  // namespace switchyard::c_api
