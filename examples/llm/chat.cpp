// SPDX-License-Identifier: MIT
#include "chat.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "quote.hpp"

namespace llm {
namespace {

/// A prompt as it grows.
class chat_text {
 public:
  void special(std::string_view name) { pieces_.push_back({std::string{name}, true}); }
  void text(std::string_view more) {
    if (more.empty()) return;
    if (pieces_.empty() || pieces_.back().special) pieces_.emplace_back();
    pieces_.back().text += more;
  }
  [[nodiscard]] std::vector<chat_piece> take() { return std::move(pieces_); }

 private:
  std::vector<chat_piece> pieces_;
};

[[nodiscard]] std::string_view strip(std::string_view text, std::string_view what) {
  const std::size_t begin = text.find_first_not_of(what);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(what) + 1 - begin);
}

[[nodiscard]] std::string_view strip_front(std::string_view text, std::string_view what) {
  return text.substr(std::min(text.find_first_not_of(what), text.size()));
}

void begin_chatml(chat_text& out, chat_role role) {
  out.special("<|im_start|>");
  out.text(to_string(role));
  out.text("\n");
}

void end_chatml(chat_text& out) {
  out.special("<|im_end|>");
  out.text("\n");
}

void add_chatml(chat_text& out, chat_role role, std::string_view content) {
  begin_chatml(out, role);
  out.text(content);
  end_chatml(out);
}

void render_chatml(chat_text& out, std::span<const chat_message> messages, std::string_view default_system) {
  if (messages.front().role != chat_role::system) add_chatml(out, chat_role::system, default_system);
  for (const chat_message& message : messages) add_chatml(out, message.role, message.content);
}

/// Qwen3: an answer with its thought, or without.
void add_qwen3_answer(chat_text& out, std::string_view content, bool after_last_question, bool last) {
  constexpr std::string_view open = "<think>";
  constexpr std::string_view close = "</think>";
  std::string_view thought;
  if (const std::size_t end = content.find(close); end != std::string_view::npos) {
    thought = content.substr(0, end);
    if (const std::size_t begin = thought.rfind(open); begin != std::string_view::npos) {
      thought.remove_prefix(begin + open.size());
    }
    thought = strip(thought, "\n");
    content = strip_front(content.substr(content.rfind(close) + close.size()), "\n");
  }
  begin_chatml(out, chat_role::assistant);
  if (after_last_question && (last || !thought.empty())) {
    out.special(open);
    out.text("\n");
    out.text(thought);
    out.text("\n");
    out.special(close);
    out.text("\n\n");
    content = strip_front(content, "\n");
  }
  out.text(content);
  end_chatml(out);
}

void render_qwen3(chat_text& out, std::span<const chat_message> messages) {
  std::size_t last_question = messages.size() - 1;
  for (std::size_t i = messages.size(); i-- != 0;) {
    if (messages[i].role != chat_role::user) continue;
    last_question = i;
    break;
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == chat_role::assistant) {
      add_qwen3_answer(out, messages[i].content, i > last_question, i + 1 == messages.size());
    } else {
      add_chatml(out, messages[i].role, messages[i].content);
    }
  }
}

void begin_llama3(chat_text& out, chat_role role) {
  out.special("<|start_header_id|>");
  out.text(to_string(role));
  out.special("<|end_header_id|>");
  out.text("\n\n");
}

void render_llama3(chat_text& out, std::span<const chat_message> messages, const std::string* date) {
  constexpr std::string_view white_space = " \t\n\v\f\r";
  out.special("<|begin_of_text|>");
  if (date != nullptr) {
    begin_llama3(out, chat_role::system);
    out.text("Cutting Knowledge Date: December 2023\nToday Date: ");
    out.text(*date);
    out.text("\n\n");
    if (messages.front().role == chat_role::system) {
      out.text(strip(messages.front().content, white_space));
      messages = messages.subspan(1);
    }
    out.special("<|eot_id|>");
  }
  for (const chat_message& message : messages) {
    begin_llama3(out, message.role);
    out.text(strip(message.content, white_space));
    out.special("<|eot_id|>");
  }
}

}  // namespace

std::string_view to_string(chat_role role) noexcept {
  switch (role) {
    case chat_role::system:
      return "system";
    case chat_role::user:
      return "user";
    case chat_role::assistant:
      return "assistant";
  }
  return {};
}

chat_role parse_chat_role(std::string_view name) {
  for (const chat_role role : {chat_role::system, chat_role::user, chat_role::assistant}) {
    if (name == to_string(role)) return role;
  }
  throw std::invalid_argument{"unknown role " + quote(name) + "; expected system, user or assistant"};
}

std::string_view to_string(chat_family family) noexcept {
  switch (family) {
    case chat_family::smollm2:
      return "SmolLM2";
    case chat_family::llama3:
      return "Llama 3";
    case chat_family::llama3_1:
      return "Llama 3.1";
    case chat_family::qwen2_5:
      return "Qwen2.5";
    case chat_family::qwen3:
      return "Qwen3";
  }
  return {};
}

chat_family find_chat_family(const gguf_file& file) {
  const auto text = file.find_string("tokenizer.chat_template");
  if (!text) {
    throw file.error(
        "has no chat template: the key 'tokenizer.chat_template' is missing, as in models that are not "
        "trained to "
        "converse. Use a prompt without messages, or an instruct model");
  }
  const std::string_view architecture = file.find_string("general.architecture").value_or("");
  const auto has = [&text](std::string_view mark) { return text->find(mark) != std::string_view::npos; };
  if (architecture == "llama" && has("<|start_header_id|>") && has("<|end_header_id|>")) {
    return has("Cutting Knowledge Date") ? chat_family::llama3_1 : chat_family::llama3;
  }
  if (has("<|im_start|>")) {
    if (architecture == "llama" &&
        has("You are a helpful AI assistant named SmolLM, trained by Hugging Face")) {
      return chat_family::smollm2;
    }
    if (architecture == "qwen2" && has("You are Qwen, created by Alibaba Cloud")) return chat_family::qwen2_5;
    if (architecture == "qwen3" && has("enable_thinking")) return chat_family::qwen3;
  }
  throw file.error(
      "has a chat template of another family (architecture " + quote(architecture) + ", template " +
      quote(*text) +
      "); expected SmolLM2, Llama 3, Qwen2.5 or Qwen3. Prompts without messages can still be used");
}

std::vector<chat_piece> render_chat(chat_family family, std::span<const chat_message> messages,
                                    const chat_options& options) {
  if (messages.empty()) throw std::invalid_argument{"a conversation without messages; expected at least one"};
  chat_text out;
  switch (family) {
    case chat_family::smollm2:
      render_chatml(out, messages, "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
      break;
    case chat_family::qwen2_5:
      render_chatml(out, messages, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
      break;
    case chat_family::qwen3:
      render_qwen3(out, messages);
      break;
    case chat_family::llama3:
      render_llama3(out, messages, nullptr);
      break;
    case chat_family::llama3_1:
      render_llama3(out, messages, &options.date);
      break;
  }
  if (!options.add_generation_prompt) return out.take();
  if (family == chat_family::llama3 || family == chat_family::llama3_1) {
    begin_llama3(out, chat_role::assistant);
    return out.take();
  }
  begin_chatml(out, chat_role::assistant);
  if (family == chat_family::qwen3 && !options.enable_thinking) {
    out.special("<think>");
    out.text("\n\n");
    out.special("</think>");
    out.text("\n\n");
  }
  return out.take();
}

std::vector<token_id> encode_chat(const tokenizer& with, std::span<const chat_piece> pieces) {
  std::vector<token_id> out;
  for (const chat_piece& piece : pieces) {
    if (!piece.special) {
      const std::vector<token_id> tokens = with.encode(piece.text);
      out.insert(out.end(), tokens.begin(), tokens.end());
      continue;
    }
    const auto token = with.find_special(piece.text);
    if (!token) {
      throw std::runtime_error{
          "the vocabulary has no special token " + quote(piece.text) +
          ", which the chat format needs. Check that the model's file is of this family"};
    }
    out.push_back(*token);
  }
  return out;
}

}  // namespace llm
