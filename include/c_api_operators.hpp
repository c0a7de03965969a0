// SPDX-License-Identifier: MIT
// The operators of the C API, opened by name and called without their types.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <switchyard/c_api.h>
#include <switchyard/switchyard.hpp>

#include "c_api_calls.hpp"
#include "c_api_function.hpp"

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

template <class Operator>
std::unique_ptr<switchyard_operator> open_operator(catalog& from, bool is_host, const choice_limits* limits) {
  using opened = operator_of<Operator>;
  if (limits == nullptr) {
    if (!is_host) return std::make_unique<opened>(from);
    return std::make_unique<opened>(from, device::host());
  }
  if (!is_host) return std::make_unique<opened>(from, *limits);
  return std::make_unique<opened>(from, device::host(), *limits);
}

/// An operator by its name, on a device by its name; see is_host(). Null limits: the catalog's.
[[nodiscard]] inline std::unique_ptr<switchyard_operator> open_operator(catalog& from, const char* name,
                                                                        const char* device,
                                                                        const choice_limits* limits) {
  const operator_description& wanted = find(name);
  const bool on_host = is_host(device);
  std::unique_ptr<switchyard_operator> out;
  operators::built_in::for_each([&]<class Operator>() {
    if (Operator::name == wanted.name) out = open_operator<Operator>(from, on_host, limits);
  });
  return out;
}

}  // namespace switchyard::c_api
