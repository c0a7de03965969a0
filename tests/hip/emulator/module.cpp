// SPDX-License-Identifier: MIT
#include "module.hpp"

#include <optional>
#include <stdexcept>

#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/hip/code_object.hpp>
#include <switchyard/object_files/elf.hpp>
#include <switchyard/object_files/elf_sections.hpp>

#include "counts.hpp"

namespace emulator {

namespace {

namespace elf = switchyard::elf;
using reader = switchyard::hip::detail::message_reader;
using switchyard::hip::detail::read_map;
using switchyard::hip::detail::to_uint32;

/// An image is given without its size: that of an ELF file is where its table of sections ends.
std::size_t size_of_image(const std::byte* image) {
  const auto file = elf::read_header({image, 64});
  if (!file) throw std::runtime_error{"the image is no code object"};
  return static_cast<std::size_t>(file->section_offset + file->sections * file->section_bytes);
}

template <class Visitor>
bool for_each_element(reader& message, const reader::item& list, const Visitor& visit) {
  if (list.type != reader::kind::array) return false;
  for (std::uint64_t i = 0; i < list.number; ++i) {
    const auto element = message.next();
    if (!element || !visit(*element)) return false;
  }
  return true;
}

bool read_argument(reader& message, const reader::item& begun, argument& out) {
  return read_map(message, begun, [&](std::string_view key, const reader::item& value) {
    if (key == ".offset") return to_uint32(value, out.offset);
    if (key == ".size") return to_uint32(value, out.bytes);
    if (key == ".value_kind" && value.text.starts_with("hidden_")) out.hidden = value.text.substr(7);
    return message.skip_rest(value);
  });
}

}  // namespace

module::module(const std::byte* image, const std::string& architecture,
               int device) :image_{image, image + size_of_image(image)},
    architecture_{architecture}, device_{device} {
  const auto description = switchyard::hip::read_code_object(image_);
  if (!description) throw std::runtime_error{"the code object has no notes on its kernels"};
  const std::string target = description->target.substr(0, description->target.find(':'));
  if (target != architecture)
    throw std::runtime_error{"the code object is for " + target + ", the device is " + architecture};
  digest_ = switchyard::sha256(image_);
  for (const auto& one : description->kernels) max_threads_[one.name] = one.max_threads_per_block;
  elf::find_note(image_, [&](std::string_view owner, std::uint32_t type, std::span<const std::byte> note) {
    if (owner != "AMDGPU" || type != 32) return false;
    reader message{note};
    const auto begun = message.next();
    return begun && read_map(message, *begun, [&](std::string_view key, const reader::item& value) {
             if (key != "amdhsa.kernels") return message.skip_rest(value);
             return for_each_element(message, value, [&](const reader::item& one) {
               std::string name;
               std::vector<argument> arguments;
               const bool read =
                   read_map(message, one, [&](std::string_view inner, const reader::item& field) {
                     if (inner == ".name") name = field.text;
                     if (inner != ".args") return message.skip_rest(field);
                     return for_each_element(message, field, [&](const reader::item& argument) {
                       return read_argument(message, argument, arguments.emplace_back());
                     });
                   });
               arguments_[name] = std::move(arguments);
               return read;
             });
           });
  });
}

const kernel* module::find(const std::string& name) {
  const std::scoped_lock lock{mutex_};
  if (const auto known = kernels_.find(name); known != kernels_.end()) return &known->second;
  if (arguments_.count(name) == 0) return nullptr;
  std::optional<elf::symbol> descriptor;
  std::optional<elf::symbol> function;
  elf::find_symbol(image_, elf::section_dynamic_symbols, [&](const elf::symbol& symbol) {
    if (symbol.name == name + ".kd") descriptor = symbol;
    if (symbol.name == name) function = symbol;
    return false;
  });
  if (!descriptor || !function) return nullptr;
  const auto head = elf::bytes_at_address(image_, descriptor->value, 64);
  const auto text = elf::bytes_at_address(image_, function->value, function->size);
  if (!head || !text) throw std::runtime_error{name + " does not lie in its code object"};
  kernel& out = kernels_[name];
  try {
    out = {device_, digest_, decode(name, *head, *text, architecture_), arguments_[name], max_threads_[name]};
  } catch (...) {
    kernels_.erase(name);
    throw;
  }
  for (const instruction& one : out.code->code) {
    counts::occurs(one.what->name);
    if (one.second) counts::occurs(one.second->what->name);
  }
  return &out;
}

}  // namespace emulator
