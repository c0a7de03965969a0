// SPDX-License-Identifier: MIT
// The operators of the C API: each by its name, and called without its type.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/c_api.h>
#include <switchyard/switchyard.hpp>

#include "c_api_calls.hpp"

/// An operator without its type.
struct switchyard_operator {
  switchyard_operator() = default;
  switchyard_operator(const switchyard_operator&) = delete;
  switchyard_operator& operator=(const switchyard_operator&) = delete;
  virtual ~switchyard_operator() = default;
  virtual void call(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count,
                    switchyard::workspace given) = 0;
  virtual std::size_t workspace_bytes(switchyard::stream stream, const switchyard_argument* arguments,
                                      std::size_t count) = 0;
  virtual std::size_t workspace_bytes(switchyard::stream stream, const switchyard_argument* arguments,
                                      std::size_t count, std::span<const switchyard::axis_span> ranges) = 0;
  virtual void prepare(switchyard::stream stream, const switchyard_argument* arguments,
                       std::size_t count) = 0;
  virtual void prepare(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count,
                       std::span<const switchyard::axis_span> ranges) = 0;
  virtual std::string explain(switchyard::stream stream, const switchyard_argument* arguments,
                              std::size_t count) = 0;
  virtual switchyard::live_comparison compare(switchyard::stream stream, const switchyard_argument* arguments,
                                              std::size_t count,
                                              const switchyard::live_compare_options& options) = 0;
};

namespace switchyard::c_api {

template <class Operator>
class operator_of final : public switchyard_operator {
 public:
  /// As a dispatcher is made.
  template <class... From>
  explicit operator_of(catalog& files, From&&... from) : on_{files, std::forward<From>(from)...} {}

  void call(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count,
            workspace given) override {
    on_(stream, make(arguments, count), given);
  }
  std::size_t workspace_bytes(switchyard::stream stream, const switchyard_argument* arguments,
                              std::size_t count) override {
    return on_.workspace_bytes(stream, make(arguments, count));
  }
  std::size_t workspace_bytes(switchyard::stream stream, const switchyard_argument* arguments,
                              std::size_t count, std::span<const axis_span> ranges) override {
    return on_.workspace_bytes(stream, make(arguments, count), ranges);
  }
  void prepare(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count) override {
    on_.prepare(stream, make(arguments, count));
  }
  void prepare(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count,
               std::span<const axis_span> ranges) override {
    on_.prepare(stream, make(arguments, count), ranges);
  }
  std::string explain(switchyard::stream stream, const switchyard_argument* arguments,
                      std::size_t count) override {
    return to_string(on_.explain(stream, make(arguments, count)));
  }
  live_comparison compare(switchyard::stream stream, const switchyard_argument* arguments, std::size_t count,
                          const live_compare_options& options) override {
    return compare_live(on_, stream, make(arguments, count), options);
  }

 private:
  [[nodiscard]] static typename Operator::arguments make(const switchyard_argument* arguments,
                                                         std::size_t count) {
    named_arguments in{Operator::name, arguments, count};
    const auto out = call_named<Operator>(in);
    in.require_all_read();
    return out;
  }

  dispatcher<Operator> on_;
};

/// What is known of an operator by its name.
struct entry {
  const operator_description* description;
  std::unique_ptr<switchyard_operator> (*open)(catalog& from, std::string_view device,
                                               const choice_limits* limits);
};

template <class Operator>
std::unique_ptr<switchyard_operator> open_operator(catalog& from, std::string_view device,
                                                   const choice_limits* limits) {
  if (!device.empty() && device != "host")
    fail("unknown device '" + std::string{device} + "'; known are NULL and host");
  if (limits == nullptr) {
    if (device.empty()) return std::make_unique<operator_of<Operator>>(from);
    return std::make_unique<operator_of<Operator>>(from, switchyard::device::host());
  }
  if (device.empty()) return std::make_unique<operator_of<Operator>>(from, *limits);
  return std::make_unique<operator_of<Operator>>(from, switchyard::device::host(), *limits);
}

[[nodiscard]] inline entry find(const char* name) {
  const std::string_view wanted = name == nullptr ? "" : name;
  entry out{nullptr, nullptr};
  operators::built_in::for_each([&]<class Operator>() {
    if (Operator::name == wanted) out = {&describe<Operator>(), &open_operator<Operator>};
  });
  if (out.description == nullptr) {
    throw call_error{error_code::unknown_operator, "there is no operator '" + std::string{wanted} + "'"};
  }
  return out;
}

}  // namespace switchyard::c_api
