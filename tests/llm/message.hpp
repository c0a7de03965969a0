// SPDX-License-Identifier: MIT
// What a call that must throw says.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "examples/llm/gguf.hpp"

namespace switchyard::test {

/// The message of the Error that the call throws; text that no test expects where it throws none.
template <class Error, class Call>
[[nodiscard]] std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "(nothing was thrown)";
}

/// Opens bytes as a file "test.gguf". They must outlive it.
[[nodiscard]] inline llm::gguf_file open_bytes(std::string_view bytes) {
  return llm::gguf_file{std::as_bytes(std::span{bytes}), "test.gguf"};
}

/// Why bytes are no GGUF file.
[[nodiscard]] inline std::string refusal(std::string_view bytes) {
  return message_of<llm::gguf_error>([bytes] { static_cast<void>(open_bytes(bytes)); });
}

}  // namespace switchyard::test
