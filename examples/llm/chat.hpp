// SPDX-License-Identifier: MIT
// Turns the messages of a conversation into the text that a chat model was trained on.
//
// GGUF files carry this format as a Jinja template. Here, the formats of three families are built in, and a
// file's template only says which one it is: SmolLM2, Llama 3 (3.0 to 3.3) and Qwen (2.5 and 3). Tools are
// not supported.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.hpp"
#include "tokenizer.hpp"

namespace llm {

enum class chat_role { system, user, assistant };

/// The role that an API calls "system", "user" or "assistant". Throws std::invalid_argument for another name.
[[nodiscard]] chat_role parse_chat_role(std::string_view name);
[[nodiscard]] std::string_view to_string(chat_role role) noexcept;

struct chat_message {
  chat_role role = chat_role::user;
  std::string content;
};

enum class chat_family {
  smollm2,   ///< ChatML with a system message of its own
  llama3,    ///< Llama 3.0
  llama3_1,  ///< Llama 3.1 to 3.3: the system message states two dates
  qwen2_5,   ///< ChatML with a system message of its own
  qwen3      ///< ChatML; answers may begin with a thought, which later prompts leave out
};

[[nodiscard]] std::string_view to_string(chat_family family) noexcept;

/// The family of a file, by marks in `tokenizer.chat_template` and by `general.architecture`. Throws
/// gguf_error where the file has no template, or that of another family; prompts without a template can still
/// be used.
[[nodiscard]] chat_family find_chat_family(const gguf_file& file);

struct chat_options {
  bool add_generation_prompt = true;  ///< ends with the beginning of an answer
  bool enable_thinking = true;        ///< Qwen3; false: the answer begins with an empty thought
  std::string date = "26 Jul 2024";   ///< Llama 3.1: today's; the default is that of its template
};

/// A part of a prompt.
struct chat_piece {
  std::string text;
  bool special =
      false;  ///< the name of one special token; else text in which names of such tokens mean nothing
};

/// The prompt, beginning-of-text token included where the family has one. Content comes only in pieces that
/// are not special, so no message can end itself or pose as another. Adjacent text is one piece, as it is to
/// the model's own tokenizer. As in the templates, Llama 3 removes white space (here: that of ASCII) around
/// each content. Throws std::invalid_argument where there is no message.
[[nodiscard]] std::vector<chat_piece> render_chat(chat_family family, std::span<const chat_message> messages,
                                                  const chat_options& options = {});

/// The tokens of a prompt. Throws std::runtime_error where a special piece is no token of the vocabulary.
[[nodiscard]] std::vector<token_id> encode_chat(const tokenizer& with, std::span<const chat_piece> pieces);

}  // namespace llm
