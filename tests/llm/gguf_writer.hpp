// SPDX-License-Identifier: MIT
// Writes GGUF files for tests.
//
//   gguf_writer file;
//   file.set("general.architecture", "llama");
//   file.set("llama.block_count", std::uint32_t{2});
//   file.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
//   file.add_tensor("output.weight", llm::tensor_type::f32, {64, 32}, std::as_bytes(std::span{weights}));
//   file.write(path);
//
// Nothing is checked: tests write wrong files, too.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "examples/llm/gguf_value.hpp"
#include "examples/llm/tensor_type.hpp"

namespace switchyard::test {

class gguf_writer {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< of tensor data. The key general.alignment is not set by this.

  // Metadata, in the order of the calls. The type in the file is that of the argument.

  void set(std::string_view key, std::string_view value) {
    begin(key, llm::gguf_type::string);
    put_string(metadata_, value);
  }
  void set(std::string_view key, const char* value) { set(key, std::string_view{value}); }
  void set(std::string_view key, const std::string& value) { set(key, std::string_view{value}); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void set(std::string_view key, Number value) {
    begin(key, type_of<Number>());
    put(metadata_, value);
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void set(std::string_view key, const std::vector<Number>& values) {
    begin_array(key, type_of<Number>(), values.size());
    for (const Number value : values) put(metadata_, value);
  }
  void set(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, llm::gguf_type::string, values.size());
    for (const std::string& value : values) put_string(metadata_, value);
  }
  /// A value of any type number, valid or not.
  void set_raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    begin(key, llm::gguf_type{type});
    metadata_ += bytes;
  }

  /// Extents innermost first. Data is placed after that of the tensor before, at the next boundary.
  void add_tensor(std::string_view name, llm::tensor_type type, const std::vector<std::uint64_t>& extents,
                  std::span<const std::byte> bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    add_entry(name, type, extents, data_.size());
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void add_tensor(std::string_view name, llm::tensor_type type, const std::vector<std::uint64_t>& extents,
                  std::span<const float> values) {
    add_tensor(name, type, extents, std::as_bytes(values));
  }
  /// An entry of the tensor list alone, with any offset.
  void add_entry(std::string_view name, llm::tensor_type type, const std::vector<std::uint64_t>& extents,
                 std::uint64_t offset) {
    put_string(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) put(tensors_, extent);
    put(tensors_, static_cast<std::uint32_t>(type));
    put(tensors_, offset);
    ++tensor_count_;
  }

  /// The file's bytes.
  [[nodiscard]] std::string bytes() const {
    std::string out = "GGUF";
    put(out, version);
    put(out, tensor_count_);
    put(out, pair_count_);
    out += metadata_;
    out += tensors_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }
  void write(const std::string& path) const {
    const std::string all = bytes();
    std::ofstream out{path, std::ios::binary};
    out.write(all.data(), static_cast<std::streamsize>(all.size()));
    out.close();
    if (!out) throw std::runtime_error{path + ": cannot be written"};
  }

 private:
  template <class Number>
  [[nodiscard]] static constexpr llm::gguf_type type_of() {
    using enum llm::gguf_type;
    if constexpr (std::same_as<Number, bool>) return boolean;
    if constexpr (std::same_as<Number, float>) return f32;
    if constexpr (std::same_as<Number, double>) return f64;
    constexpr bool negative = std::is_signed_v<Number>;
    switch (sizeof(Number)) {
      case 1:
        return negative ? i8 : u8;
      case 2:
        return negative ? i16 : u16;
      case 4:
        return negative ? i32 : u32;
      default:
        return negative ? i64 : u64;
    }
  }
  template <class Number>
  static void put(std::string& to, Number value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_string(std::string& to, std::string_view text) {
    put(to, std::uint64_t{text.size()});
    to += text;
  }
  void begin(std::string_view key, llm::gguf_type type) {
    put_string(metadata_, key);
    put(metadata_, static_cast<std::uint32_t>(type));
    ++pair_count_;
  }
  void begin_array(std::string_view key, llm::gguf_type type, std::size_t count) {
    begin(key, llm::gguf_type::array);
    put(metadata_, static_cast<std::uint32_t>(type));
    put(metadata_, std::uint64_t{count});
  }

  std::string metadata_;
  std::string tensors_;
  std::string data_;
  std::uint64_t pair_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

}  // namespace switchyard::test
