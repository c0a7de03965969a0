// SPDX-License-Identifier: MIT
// Arbitrary bytes as a GGUF file: what is accepted can be asked for everything, and its tokenizer takes any
// text.
#include "examples/llm/gguf.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/llm/chat.hpp"
#include "examples/llm/tokenizer.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// What the file refuses must be said with its name, briefly.
template <class Call>
void attempt(const Call& call) {
  try {
    call();
  } catch (const llm::gguf_error& problem) {
    const std::string_view said = problem.what();
    require(said.starts_with("fuzz.gguf: ") && said.size() < 2000);
  }
}

void read_values(const llm::gguf_file& file) {
  for (const std::string_view key : file.keys()) {
    require(file.contains(key));
    attempt([&] { static_cast<void>(file.integer<std::int16_t>(key)); });
    attempt([&] { static_cast<void>(file.integer<std::uint64_t>(key)); });
    attempt([&] { static_cast<void>(file.real(key)); });
    attempt([&] { static_cast<void>(file.boolean(key)); });
    attempt([&] { static_cast<void>(std::string{file.string(key)}); });
    attempt([&] {
      for (const std::string_view text : file.strings(key)) static_cast<void>(std::string{text});
    });
    attempt([&] {
      const auto values = file.integers(key);
      if (values.size() != 0) static_cast<void>(values[values.size() - 1]);
    });
    attempt([&] {
      const auto values = file.reals(key);
      if (values.size() != 0) static_cast<void>(values[values.size() - 1]);
    });
  }
}

void read_tensors(const llm::gguf_file& file) {
  unsigned sum = 0;
  for (const llm::gguf_tensor& tensor : file.tensors()) {
    attempt([&] {
      const auto data = file.at(tensor.name).data;
      require(!data.empty() && tensor.elements() > 0);
      sum += std::to_integer<unsigned>(data.front()) + std::to_integer<unsigned>(data.back());
    });
  }
  require(sum != 1U << 31U);
}

void use_tokenizer(const llm::gguf_file& file, std::string_view text) {
  const llm::tokenizer with{file};
  const std::vector<llm::token_id> tokens = with.encode(text, {.parse_special = true, .add_bos = true});
  llm::decoder stream{with, true};
  std::string out;
  for (const llm::token_id token : tokens) out += stream.push(token);
  out += stream.finish();
  require(with.decode(with.encode(text)).size() <= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  attempt([&] {
    const llm::gguf_file file{std::as_bytes(std::span{data, size}), "fuzz.gguf"};
    read_values(file);
    read_tensors(file);
    attempt([&] { static_cast<void>(find_chat_family(file)); });
    use_tokenizer(file, text);
  });
  return 0;
}
