// SPDX-License-Identifier: MIT
// What the functions of the C API have in common: the error that a thread keeps, checks of what a caller
// gives, and structs and texts that a caller wants filled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operator_description.hpp>
#include <switchyard/operators/built_in.hpp>

namespace switchyard::c_api {

struct last_error {
  int code = 0;
  std::string text;
};

/// The calling thread's.
[[nodiscard]] inline last_error& mine() {
  thread_local last_error out;
  return out;
}

/// Runs a function and keeps its error.
template <class Function>
[[nodiscard]] int guarded(const Function& run) noexcept {
  try {
    run();
    return 0;
  } catch (const error& problem) {
    mine() = {static_cast<int>(problem.code()), problem.what()};
  } catch (const std::exception& problem) {
    mine() = {1, problem.what()};
  } catch (...) {
    mine() = {1, "an unknown exception"};
  }
  return mine().code;
}

[[noreturn]] inline void fail(const std::string& message) {
  throw call_error{error_code::invalid_argument, message};
}

/// For a struct whose `size` is less than this version's.
[[noreturn]] inline void fail_size(std::string_view function, std::string_view type, std::uint64_t size) {
  fail(std::string{function} + ": " + std::string{type} + " begins with the size " + std::to_string(size) +
       ", which is no version's");
}

template <class Value>
void require(const Value* value, const char* name) {
  if (value == nullptr) fail(std::string{name} + " is null");
}

/// Fills a struct of the caller, which states its size.
template <class Struct>
void fill(Struct* out, Struct value, const char* type) {
  require(out, "out");
  if (out->size < sizeof(Struct)) fail_size("out", type, out->size);
  value.size = out->size;
  *out = value;
}

/// Gives a text to a caller's buffer.
inline void give(const std::string& from, char* text, std::size_t capacity, std::size_t* length) {
  if (length != nullptr) *length = from.size();
  if (capacity == 0) return;
  require(text, "text");
  const std::size_t kept = std::min(from.size(), capacity - 1);
  std::memcpy(text, from.data(), kept);
  text[kept] = 0;
}

/// Whether a device is the CPU, by the name that a caller gives; null or empty: the stream's or the current
/// one.
[[nodiscard]] inline bool is_host(const char* device) {
  const std::string_view wanted = device == nullptr ? "" : device;
  if (!wanted.empty() && wanted != "host")
    fail("unknown device '" + std::string{wanted} + "'; known are NULL and host");
  return !wanted.empty();
}

/// An operator by its name.
[[nodiscard]] inline const operator_description& find(const char* name) {
  const std::string_view wanted = name == nullptr ? "" : name;
  const operator_description* out = nullptr;
  operators::built_in::for_each([&]<class Operator>() {
    if (Operator::name == wanted) out = &describe<Operator>();
  });
  if (out == nullptr)
    throw call_error{error_code::unknown_operator, "there is no operator '" + std::string{wanted} + "'"};
  return *out;
}

}  // namespace switchyard::c_api
