// SPDX-License-Identifier: MIT
// Queries of an open file. gguf_parse.cpp reads it.
#include "gguf.hpp"

#include "quote.hpp"

namespace llm {
namespace {

[[nodiscard]] mapped_file map_gguf(const std::string& path) {
  try {
    return mapped_file{path};
  } catch (const std::runtime_error& problem) {
    throw gguf_error{problem.what()};
  }
}

[[nodiscard]] std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

gguf_file::gguf_file(const std::string& path) : path_{path}, map_{map_gguf(path)} {
  parse(map_.bytes());
}

gguf_file::gguf_file(std::span<const std::byte> bytes, std::string name) : path_{std::move(name)} {
  parse(bytes);
}

gguf_error gguf_file::error(std::string_view text) const {
  return gguf_error{path_ + ": " + std::string{text}};
}

gguf_error gguf_file::missing(std::string_view key, std::string_view kind) const {
  return error("the key " + quote(key) + " is missing; expected " + std::string{kind} +
               ". Convert the model again with a current converter");
}

gguf_error gguf_file::mismatch(std::string_view key, std::string_view wanted, const gguf_value& found) const {
  std::string kind;
  if (found.is_array) kind = "an array of " + std::to_string(found.count) + " values of type ";
  kind += name_of(found.type);
  return error("the key " + quote(key) + " has " + kind + "; expected " + std::string{wanted});
}

const gguf_value* gguf_file::find_value(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> gguf_file::find_integer_within(std::string_view key, std::int64_t low,
                                                            std::uint64_t high) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || !is_integer(value->type)) throw mismatch(key, "an integer", *value);
  const std::int64_t number = read_integer(value->type, value->bytes.data());
  const auto bits = static_cast<std::uint64_t>(number);
  const bool negative = number < 0 && is_signed(value->type);
  if (negative ? number < low : bits > high) {
    throw error("the key " + quote(key) + " has the value " +
                (negative ? std::to_string(number) : std::to_string(bits)) + "; expected one from " +
                std::to_string(low) + " to " + std::to_string(high));
  }
  return bits;
}

std::optional<double> gguf_file::find_real(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || !is_real(value->type)) throw mismatch(key, "a number of type f32 or f64", *value);
  return read_real(value->type, value->bytes.data());
}

std::optional<bool> gguf_file::find_boolean(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != gguf_type::boolean) throw mismatch(key, "a boolean", *value);
  return value->bytes.front() != std::byte{0};
}

std::optional<std::string_view> gguf_file::find_string(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != gguf_type::string) throw mismatch(key, "a string", *value);
  return as_text(value->bytes);
}

std::optional<std::vector<std::string_view>> gguf_file::find_strings(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array || value->type != gguf_type::string)
    throw mismatch(key, "an array of strings", *value);
  std::vector<std::string_view> out;
  out.reserve(value->count);  // parse() has seen each of them
  std::span<const std::byte> rest = value->bytes;
  for (std::size_t i = 0; i < value->count; ++i) {
    const auto length = static_cast<std::size_t>(read_number<std::uint64_t>(rest.data()));
    rest = rest.subspan(sizeof(std::uint64_t));
    out.push_back(as_text(rest.first(length)));
    rest = rest.subspan(length);
  }
  return out;
}

std::optional<gguf_integers> gguf_file::find_integers(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array || !is_integer(value->type)) throw mismatch(key, "an array of integers", *value);
  const gguf_integers out{*value};
  if (value->type == gguf_type::u64) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] < 0) {
        throw error("element " + std::to_string(i) + " of the key " + quote(key) + " is " +
                    std::to_string(static_cast<std::uint64_t>(out[i])) + "; expected at most " +
                    std::to_string(std::numeric_limits<std::int64_t>::max()));
      }
    }
  }
  return out;
}

std::optional<gguf_reals> gguf_file::find_reals(std::string_view key) const {
  const gguf_value* const value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array || !is_real(value->type)) {
    throw mismatch(key, "an array of numbers of type f32 or f64", *value);
  }
  return gguf_reals{*value};
}

const gguf_tensor* gguf_file::find(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  if (found == tensor_index_.end()) return nullptr;
  const gguf_tensor& tensor = tensors_[found->second];
  if (!block_of(tensor.type)) {
    throw error("tensor " + quote(name) + " has the type " + to_string(tensor.type) + "; expected one of " +
                readable_types() + ". Quantise the model to one of these");
  }
  return &tensor;
}

const gguf_tensor& gguf_file::at(std::string_view name) const {
  const gguf_tensor* const found = find(name);
  if (found == nullptr) {
    throw error("tensor " + quote(name) + " is missing among the " + std::to_string(tensors_.size()) +
                " of the file. Check that the file is complete and of this architecture");
  }
  return *found;
}

}  // namespace llm
