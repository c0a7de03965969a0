// SPDX-License-Identifier: MIT
// The metadata of a tokenizer with few tokens, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf_writer.hpp"

namespace switchyard::test {

/// The character that stands for a byte in a byte-level vocabulary.
[[nodiscard]] inline std::string byte_character(unsigned byte) {
  unsigned code = byte;
  const auto printable = [](unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad); };
  if (!printable(byte)) {
    code = 0x100;
    for (unsigned below = 0; below < byte; ++below) code += printable(below) ? 0U : 1U;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3fU))};
}

/// What a file's tokenizer says; members can be changed before it is written.
struct tiny_tokenizer {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;

  /// The 256 bytes, with the ids of their values.
  tiny_tokenizer() {
    for (unsigned byte = 0; byte < 256; ++byte) add(byte_character(byte));
  }
  /// Returns the id.
  std::int32_t add(const std::string& token, std::int32_t type = 1) {
    tokens.push_back(token);
    types.push_back(type);
    return static_cast<std::int32_t>(tokens.size() - 1);
  }
  /// Returns the id of what they merge into.
  std::int32_t add_merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    return add(left + right);
  }
  void write_to(gguf_writer& file) const {
    file.set("tokenizer.ggml.model", model);
    file.set("tokenizer.ggml.pre", pre);
    file.set("tokenizer.ggml.tokens", tokens);
    file.set("tokenizer.ggml.token_type", types);
    file.set("tokenizer.ggml.merges", merges);
  }
  [[nodiscard]] std::string bytes() const {
    gguf_writer file;
    write_to(file);
    return file.bytes();
  }
};

}  // namespace switchyard::test
