// SPDX-License-Identifier: MIT
// Reads and checks a GGUF file from its first byte to its last tensor.
#include <algorithm>
#include <bit>

#include "gguf.hpp"
#include "quote.hpp"

namespace llm {
namespace {

constexpr std::string_view download_again = ". Copy or download the file again";

/// Reads from the front. Every read names the part of the file that it is for.
class byte_cursor {
 public:
  byte_cursor(const gguf_file& file, std::span<const std::byte> bytes) : file_{file}, bytes_{bytes} {}

  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - position_; }

  template <class Number>
  [[nodiscard]] Number number(std::string_view part) {
    return read_number<Number>(take(sizeof(Number), part).data());
  }

  [[nodiscard]] std::string_view string(std::string_view part) {
    const auto length = number<std::uint64_t>(part);
    const auto bytes = take(length, part);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t length, std::string_view part) {
    if (length > left()) {
      throw file_.error("is truncated or damaged in " + std::string{part} + ": " + std::to_string(length) +
                        " bytes expected from byte " + std::to_string(position_) +
                        " on, but the file ends after " + std::to_string(left()) +
                        std::string{download_again});
    }
    const auto out = bytes_.subspan(position_, static_cast<std::size_t>(length));
    position_ += static_cast<std::size_t>(length);
    return out;
  }

 private:
  const gguf_file& file_;
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

/// What a file without GGUF's magic looks like, or empty.
[[nodiscard]] std::string_view recognise(std::string_view start) {
  for (const std::string_view magic : {"ggml", "ggmf", "ggjt", "ggla"}) {
    const std::string reversed{magic.rbegin(), magic.rend()};  // written as a little-endian number
    if (start.starts_with(magic) || start.starts_with(reversed)) {
      return "an old GGML or GGJT file. Convert the original model to GGUF";
    }
  }
  if (start.starts_with("FUGG"))
    return "a GGUF file with its bytes reversed. Convert the original model again";
  if (start.starts_with("version https://git-lfs")) {
    return "a Git LFS pointer. Fetch the file itself with `git lfs pull`";
  }
  if (start.starts_with("PK\x03\x04")) {
    return "a ZIP archive, such as a PyTorch checkpoint. Convert the model to GGUF";
  }
  if (start.size() > 8 && start[8] == '{') return "a safetensors file. Convert the model to GGUF";
  const auto text = start.find_first_not_of(" \t\r\n");
  if (text != std::string_view::npos && start[text] == '<') {
    return "an HTML page, perhaps in place of a download. Download the file again";
  }
  if (text != std::string_view::npos && start[text] == '{') return "a JSON file. Name the GGUF file";
  return {};
}

void check_magic(const gguf_file& file, std::span<const std::byte> bytes) {
  const std::string_view start{reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 64)};
  if (bytes.empty()) throw file.error("is empty" + std::string{download_again});
  if (start.starts_with("GGUF")) return;
  const std::string_view seems = recognise(start);
  throw file.error("is not a GGUF file: starts with " + quote(start.substr(0, 4)) + " instead of 'GGUF'" +
                   (seems.empty() ? ". Check the path, or download the file again"
                                  : "; it looks like " + std::string{seems}));
}

[[nodiscard]] std::uint32_t read_version(const gguf_file& file, byte_cursor& from) {
  const auto version = from.number<std::uint32_t>("the header");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffffU) == 0) {
    throw file.error(
        "is a big-endian GGUF file; expected a little-endian one. Convert the model for little-endian "
        "machines");
  }
  throw file.error("has GGUF version " + std::to_string(version) + "; expected 2 or 3. " +
                   (version < 2 ? "Convert the original model again" : "A newer reader is required"));
}

/// A count of things that take at least `least` bytes each.
[[nodiscard]] std::size_t read_count(const gguf_file& file, byte_cursor& from, std::string_view part,
                                     std::size_t least) {
  const auto count = from.number<std::uint64_t>("the header");
  const std::size_t room = from.left() / least;
  if (count > room) {
    throw file.error("the header announces " + std::to_string(count) + " " + std::string{part} +
                     ", but the file has room for at most " + std::to_string(room) +
                     ": truncated or damaged" + std::string{download_again});
  }
  return static_cast<std::size_t>(count);
}

[[nodiscard]] gguf_error unknown_value_type(const gguf_file& file, gguf_type type, const std::string& part) {
  return file.error(part + " has the unknown value type " + std::to_string(static_cast<std::uint32_t>(type)) +
                    "; expected 0 to 12. The file is damaged or newer than this reader");
}

[[nodiscard]] gguf_value read_array(const gguf_file& file, byte_cursor& from, const std::string& part) {
  gguf_value out;
  out.is_array = true;
  out.type = gguf_type{from.number<std::uint32_t>(part)};
  if (name_of(out.type).empty()) throw unknown_value_type(file, out.type, part);
  if (out.type == gguf_type::array) {
    throw file.error(part + " is an array of arrays; expected an array of numbers or strings");
  }
  const auto count = from.number<std::uint64_t>(part);
  const std::size_t least = out.type == gguf_type::string ? sizeof(std::uint64_t) : size_of(out.type);
  if (count > from.left() / least) {
    throw file.error(part + " is an array of " + std::to_string(count) + " values of type " +
                     std::string{name_of(out.type)} + ", but the file ends after " +
                     std::to_string(from.left()) + " bytes: truncated or damaged" +
                     std::string{download_again});
  }
  out.count = static_cast<std::size_t>(count);
  if (out.type != gguf_type::string) {
    out.bytes = from.take(count * least, part);
    return out;
  }
  byte_cursor strings = from;
  for (std::size_t i = 0; i < out.count; ++i) static_cast<void>(strings.string(part));
  out.bytes = from.take(strings.position() - from.position(), part);
  return out;
}

[[nodiscard]] gguf_value read_value(const gguf_file& file, byte_cursor& from, const std::string& part) {
  const gguf_type type{from.number<std::uint32_t>(part)};
  if (type == gguf_type::array) return read_array(file, from, part);
  if (name_of(type).empty()) throw unknown_value_type(file, type, part);
  gguf_value out;
  out.type = type;
  const std::uint64_t length = type == gguf_type::string ? from.number<std::uint64_t>(part)
                                                         : static_cast<std::uint64_t>(size_of(type));
  out.bytes = from.take(length, part);
  return out;
}

/// A tensor without its data, and where its data starts in the data section.
struct tensor_entry {
  gguf_tensor tensor;
  std::uint64_t offset = 0;
};

[[nodiscard]] std::string join_extents(const gguf_tensor& tensor) {
  std::string out;
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    if (i != 0) out += " x ";
    out += std::to_string(tensor.extents[i]);
  }
  return out;
}

[[nodiscard]] tensor_entry read_tensor(const gguf_file& file, byte_cursor& from) {
  tensor_entry out;
  gguf_tensor& tensor = out.tensor;
  tensor.name = from.string("the tensor list");
  const std::string part = "tensor " + quote(tensor.name);
  tensor.rank = from.number<std::uint32_t>(part);
  if (tensor.rank < 1 || tensor.rank > tensor.extents.size()) {
    throw file.error(part + " has rank " + std::to_string(tensor.rank) + "; expected 1 to " +
                     std::to_string(tensor.extents.size()) + std::string{download_again});
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    const auto extent = from.number<std::uint64_t>(part);
    if (extent == 0 || extent > static_cast<std::uint64_t>(most)) {
      throw file.error(part + " has the extent " + std::to_string(extent) + "; expected 1 to " +
                       std::to_string(most) + std::string{download_again});
    }
    tensor.extents[i] = static_cast<std::int64_t>(extent);
    if (tensor.extents[i] > most / elements) {
      throw file.error(part + " has too many elements: the product of its extents exceeds " +
                       std::to_string(most) + std::string{download_again});
    }
    elements *= tensor.extents[i];
  }
  tensor.type = tensor_type{from.number<std::uint32_t>(part)};
  out.offset = from.number<std::uint64_t>(part);
  return out;
}

/// Bytes of a tensor. Throws where its rows are no whole blocks.
[[nodiscard]] std::uint64_t size_of_data(const gguf_file& file, const gguf_tensor& tensor) {
  const block_format block = block_of(tensor.type);
  if (!block) return 0;
  const std::string part = "tensor " + quote(tensor.name);
  if (tensor.extents[0] % block.elements != 0) {
    throw file.error(part + " (" + join_extents(tensor) + ") has rows of " +
                     std::to_string(tensor.extents[0]) + " elements; expected a multiple of " +
                     std::to_string(block.elements) + ", the block of " + to_string(tensor.type));
  }
  const std::int64_t blocks = tensor.elements() / block.elements;
  if (blocks > std::numeric_limits<std::int64_t>::max() / block.bytes) {
    throw file.error(part + " (" + join_extents(tensor) + ") has a size in bytes that exceeds 64 bits" +
                     std::string{download_again});
  }
  return static_cast<std::uint64_t>(blocks * block.bytes);
}

/// Gives a tensor its data.
void place(const gguf_file& file, tensor_entry& entry, std::span<const std::byte> bytes,
           std::uint64_t data_start) {
  const std::string part = "tensor " + quote(entry.tensor.name);
  if (entry.offset % file.alignment() != 0) {
    throw file.error(part + " has the offset " + std::to_string(entry.offset) + "; expected a multiple of " +
                     std::to_string(file.alignment()) + ", the file's alignment" +
                     std::string{download_again});
  }
  const std::uint64_t size = size_of_data(file, entry.tensor);
  const std::uint64_t room = bytes.size() > data_start ? bytes.size() - data_start : 0;
  if (entry.offset > room || size > room - entry.offset) {
    throw file.error("is truncated in the tensor data: " + part + " (" + to_string(entry.tensor.type) + ", " +
                     join_extents(entry.tensor) + ") takes " + std::to_string(size) + " bytes at offset " +
                     std::to_string(entry.offset) + " of the data section, which has " +
                     std::to_string(room) + std::string{download_again});
  }
  if (size != 0) {
    entry.tensor.data =
        bytes.subspan(static_cast<std::size_t>(data_start + entry.offset), static_cast<std::size_t>(size));
  }
}

}  // namespace

void gguf_file::parse(std::span<const std::byte> bytes) {
  check_magic(*this, bytes);
  byte_cursor from{*this, bytes};
  static_cast<void>(from.take(4, "the header"));
  version_ = read_version(*this, from);
  constexpr std::size_t least_tensor = 8 + 4 + 8 + 4 + 8;  // name, rank, an extent, type, offset
  constexpr std::size_t least_pair = 8 + 4 + 1;            // key, type, a byte
  const std::size_t tensor_count = read_count(*this, from, "tensors", least_tensor);
  const std::size_t pair_count = read_count(*this, from, "metadata keys", least_pair);

  constexpr std::size_t max_reserved = 65536;  // a damaged count costs no more
  keys_.reserve(std::min(pair_count, max_reserved));
  values_.reserve(std::min(pair_count, max_reserved));
  for (std::size_t i = 0; i < pair_count; ++i) {
    const std::string_view key = from.string("the metadata");
    const std::string part = "the metadata key " + quote(key);
    if (!values_.try_emplace(key, read_value(*this, from, part)).second) {
      throw error(part + " appears twice" + std::string{download_again});
    }
    keys_.push_back(key);
  }

  alignment_ = find_integer<std::uint32_t>("general.alignment").value_or(32);
  if (alignment_ < 8 || !std::has_single_bit(alignment_)) {
    throw error("general.alignment is " + std::to_string(alignment_) +
                "; expected a power of two of at least 8");
  }

  std::vector<tensor_entry> entries;
  entries.reserve(std::min(tensor_count, max_reserved));
  for (std::size_t i = 0; i < tensor_count; ++i) entries.push_back(read_tensor(*this, from));
  const std::uint64_t data_start = (from.position() + alignment_ - 1) / alignment_ * alignment_;
  tensors_.reserve(entries.size());
  tensor_index_.reserve(entries.size());
  for (tensor_entry& entry : entries) {
    place(*this, entry, bytes, data_start);
    if (!tensor_index_.try_emplace(entry.tensor.name, tensors_.size()).second) {
      throw error("tensor " + quote(entry.tensor.name) + " appears twice" + std::string{download_again});
    }
    tensors_.push_back(entry.tensor);
  }
}

}  // namespace llm
