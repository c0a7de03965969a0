// SPDX-License-Identifier: MIT
// Reads GGUF files, versions 2 and 3: metadata and tensors.
//
// The file is mapped and checked once, when it is opened; names, strings and tensor data are views into the
// map. Any bytes may be given: faults throw gguf_error, and allocations are bounded by the file's size. A
// tensor of an unsupported type is refused when it is requested, so that the metadata of such a file can be
// shown. Const functions may be called from any number of threads.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf_value.hpp"
#include "mapped_file.hpp"
#include "tensor_type.hpp"

namespace llm {

/// Why a file, a value or a tensor cannot be used: the file, what was found, what was expected, and what to
/// do.
class gguf_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor in the file.
struct gguf_tensor {
  std::string_view name;
  tensor_type type{};
  std::uint32_t rank = 0;                           ///< 1 to 4
  std::array<std::int64_t, 4> extents{1, 1, 1, 1};  ///< innermost first; 1 beyond the rank
  std::span<const std::byte> data;                  ///< whole blocks; empty where the type is not read

  [[nodiscard]] std::int64_t elements() const noexcept {
    return extents[0] * extents[1] * extents[2] * extents[3];
  }
};

/// An open file. Move-only: views stay valid when it is moved, until it is destroyed.
class gguf_file {
 public:
  /// Opens, maps and checks a file. Throws gguf_error.
  explicit gguf_file(const std::string& path);
  /// The same for bytes in memory, which must outlive the object. Tensor data is aligned as far as `bytes`
  /// is; `name` stands in messages.
  gguf_file(std::span<const std::byte> bytes, std::string name);
  gguf_file(gguf_file&&) noexcept = default;
  gguf_file& operator=(gguf_file&&) noexcept = default;
  gguf_file(const gguf_file&) = delete;
  gguf_file& operator=(const gguf_file&) = delete;
  ~gguf_file() = default;

  /// The path or name with which it was opened.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// 2 or 3.
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  /// Boundary of tensor data, in bytes: `general.alignment`, else 32.
  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_; }

  // Metadata. find_x() is empty where the key is absent; x() throws gguf_error then. Both throw where the key
  // has a value of another kind.

  [[nodiscard]] bool contains(std::string_view key) const { return values_.contains(key); }
  /// In the order of the file.
  [[nodiscard]] std::span<const std::string_view> keys() const noexcept { return keys_; }

  /// An integer of any width. Throws where the value does not fit in Integer.
  template <std::integral Integer>
  [[nodiscard]] std::optional<Integer> find_integer(std::string_view key) const {
    const auto wide = find_integer_within(key, std::numeric_limits<Integer>::min(),
                                          static_cast<std::uint64_t>(std::numeric_limits<Integer>::max()));
    if (!wide) return std::nullopt;
    return static_cast<Integer>(*wide);
  }
  template <std::integral Integer>
  [[nodiscard]] Integer integer(std::string_view key) const {
    return require(find_integer<Integer>(key), key, "an integer");
  }
  /// A float of 32 or 64 bits, which may be infinite or NaN.
  [[nodiscard]] std::optional<double> find_real(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const { return require(find_real(key), key, "a number"); }
  [[nodiscard]] std::optional<bool> find_boolean(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const {
    return require(find_boolean(key), key, "a boolean");
  }
  /// Bytes as they stand in the file: not checked to be UTF-8.
  [[nodiscard]] std::optional<std::string_view> find_string(std::string_view key) const;
  [[nodiscard]] std::string_view string(std::string_view key) const {
    return require(find_string(key), key, "a string");
  }
  /// One view for each string.
  [[nodiscard]] std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;
  [[nodiscard]] std::vector<std::string_view> strings(std::string_view key) const {
    return require(find_strings(key), key, "an array of strings");
  }
  /// Integers of any width. Throws for unsigned ones above the range of int64.
  [[nodiscard]] std::optional<gguf_integers> find_integers(std::string_view key) const;
  [[nodiscard]] gguf_integers integers(std::string_view key) const {
    return require(find_integers(key), key, "an array of integers");
  }
  [[nodiscard]] std::optional<gguf_reals> find_reals(std::string_view key) const;
  [[nodiscard]] gguf_reals reals(std::string_view key) const {
    return require(find_reals(key), key, "an array of numbers");
  }

  // Tensors.

  /// All tensors in the order of the file, including those of unsupported types.
  [[nodiscard]] std::span<const gguf_tensor> tensors() const noexcept { return tensors_; }
  /// Null if the file has none of this name. Throws gguf_error if its type is unsupported: an optional tensor
  /// must not seem absent.
  [[nodiscard]] const gguf_tensor* find(std::string_view name) const;
  /// Throws gguf_error if the file has none of this name, or if its type is unsupported.
  [[nodiscard]] const gguf_tensor& at(std::string_view name) const;

  /// Makes a gguf_error for a fault that a caller finds in this file: the path, a colon and the text.
  [[nodiscard]] gguf_error error(std::string_view text) const;

 private:
  void parse(std::span<const std::byte> bytes);
  [[nodiscard]] const gguf_value* find_value(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> find_integer_within(std::string_view key, std::int64_t low,
                                                                 std::uint64_t high) const;
  [[nodiscard]] gguf_error missing(std::string_view key, std::string_view kind) const;
  [[nodiscard]] gguf_error mismatch(std::string_view key, std::string_view wanted,
                                    const gguf_value& found) const;
  template <class Value>
  [[nodiscard]] Value require(std::optional<Value> found, std::string_view key, std::string_view kind) const {
    if (!found) throw missing(key, kind);
    return *std::move(found);
  }

  std::string path_;
  mapped_file map_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, gguf_value> values_;
  std::vector<gguf_tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace llm
