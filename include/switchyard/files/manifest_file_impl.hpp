// SPDX-License-Identifier: MIT
// The bodies of manifest_file.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_condition.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/io/file.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD manifest_file::manifest_file(std::string path, switchyard::target of) {
  head_.path = std::move(path);
  head_.target = std::move(of);
}

SWITCHYARD_COLD manifest_file::manifest_file(std::string text, const std::string& path,
                                             const operator_description& op, warnings& warned)
    : op_{&op} {
  file_.emplace(std::move(text), path, "variants");
  const json_place whole{file_->head(), path};
  head_ = detail::read_manifest_head(whole, op);
  if (!file_->has_list()) {
    const auto list = whole.at("variants");  // throws where it is missing
    (void)list.array_size();                 // throws: it is no array
  }
  file_->read_types(op, warned);
  if (op.added != nullptr) find_conditions(whole);
}

SWITCHYARD_COLD std::shared_ptr<const manifest> manifest_file::read(const entry_list& entries,
                                                                    warnings& warned) const {
  return known_.get(entries, [&] {
    // By member, without the variants: nothing else copies them, so that no code for it is compiled.
    const std::shared_ptr<manifest> out{
        new manifest{head_.path, head_.operator_name, head_.target, head_.built_by, {}}};
    const json_place whole{file_->head(), path()};
    std::optional<json_place> shared;
    if (whole.has("shared")) shared.emplace(whole.at("shared"));
    out->variants.reserve(entries.size());
    detail::variant_list variants{*op_, *out, shared ? &*shared : nullptr};
    warnings repeated;
    for (const std::uint32_t entry : entries) {
      warnings& said = known_.is_first_read(entry) ? warned : repeated;
      file_->parse_entry(entry, said,
                         [&](const json_place& place, std::size_t) { variants.add(place, said); });
    }
    return out;
  });
}

SWITCHYARD_COLD bool manifest_file::has_variant(const std::string& id) const {
  const std::scoped_lock lock{ids_mutex_};
  if (!has_ids_) {
    std::set<std::string> found;  // whole, before anything relies on it
    try {
      if (file_) {
        add_ids(*file_, found);
      } else {
        add_ids(outlined_file{read_file(path(), max_json_bytes), path(), "variants"}, found);
      }
    } catch (const error&) {
      // Gone or invalid by now: it has no variants.
    }
    ids_.swap(found);
    has_ids_ = true;
  }
  return ids_.contains(id);
}

SWITCHYARD_COLD void manifest_file::find_conditions(const json_place& whole) const {
  const detail::argument_names arguments{*op_};
  std::optional<json_place> shared;
  bool shared_names = false;
  if (whole.has("shared")) {
    shared.emplace(whole.at("shared"));
    if (shared->value().is_object()) {
      for (const auto& [unused, object] : shared->value().items()) {
        if (object.is_object() && object.contains("requires"))
          shared_names = shared_names || arguments.may_be_in(dump_json(object["requires"]));
      }
    }
  }
  detail::argument_finder named{arguments};
  detail::manifest_reader reader{*op_, {}, shared ? &*shared : nullptr};
  for (std::uint32_t i = 0; i < file_->entries().size(); ++i) {
    const outlined_file::entry& entry = file_->entries()[i];
    const bool inherits = shared_names && entry.conditions.empty();
    if (!inherits && !named.in(file_->spelt(entry.conditions))) continue;
    warnings later;  // said when the entry is read
    file_->parse_entry(i, later,
                       [&](const json_place& place, std::size_t) { reader.find_conditions(place); });
  }
}

SWITCHYARD_COLD void manifest_file::add_ids(const outlined_file& of, std::set<std::string>& to) {
  of.for_each_id([&to](std::string id) { to.insert(std::move(id)); });
}

}  // namespace v0
}  // namespace switchyard
