// A manifest on disk, of which variants are parsed when problems of their type are asked for.
//
// Immutable but for what it keeps of earlier reading. Any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/base/file.hpp>
#include <switchyard/base/lock.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_argument_axis.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

class manifest_file {
 public:
  /// A file of which only its path and target are needed, and known.
  manifest_file(std::string path, switchyard::target of) {
    head_.path = std::move(path);
    head_.target = std::move(of);
  }

  /// Throws file_error for the file as a whole. `path` names it in messages; blobs lie in its folder.
  manifest_file(std::string text, const std::string& path, const operator_description& op, warnings& warned)
      : op_{&op} {
    file_.emplace(std::move(text), path, "variants");
    const json_place whole{file_->head(), path};
    head_ = detail::read_manifest_head(whole, op);
    if (!file_->has_list()) {
      const auto list = whole.at("variants");  // throws where it is missing
      (void)list.array_size();                 // throws: it is no array
    }
    file_->read_types(op, warned);
    if (op.arguments != nullptr) find_argument_axes(whole);
  }

  [[nodiscard]] const std::string& path() const noexcept { return head_.path; }
  [[nodiscard]] const switchyard::target& target() const noexcept { return head_.target; }
  [[nodiscard]] bool is_read() const noexcept { return file_.has_value(); }
  /// Of a file that is read.
  [[nodiscard]] const outlined_file& outline() const noexcept { return *file_; }

  /// The manifest with these of its variants; shared with earlier readers of the same ones. Variants that
  /// cannot be read become warnings, once. The file is read.
  [[nodiscard]] std::shared_ptr<const manifest> read(const entry_list& entries, warnings& warned) const {
    return known_.get(entries, [&] {
      auto out = std::make_shared<manifest>(head_);
      const json_place whole{file_->head(), path()};
      std::optional<json_place> shared;
      if (whole.has("shared")) shared.emplace(whole.at("shared"));
      out->variants.reserve(entries.size());
      detail::variant_list variants{*op_, *out, shared ? &*shared : nullptr};
      warnings repeated;
      for (const std::uint32_t each : entries) {
        warnings& said = known_.is_first_read(each) ? warned : repeated;
        file_->parse_entry(each, said,
                           [&](const json_place& place, std::size_t) { variants.add(place, said); });
      }
      return out;
    });
  }

  /// The manifest with all its variants. The file is read.
  [[nodiscard]] std::shared_ptr<const manifest> read_all(warnings& warned) const {
    return read(every_entry(file_->entries().size()), warned);
  }

  /// Whether a variant has this id, also in a file that is not read.
  [[nodiscard]] bool has_variant(const std::string& id) const {
    const std::scoped_lock lock{ids_mutex_};
    if (!has_ids_) {
      has_ids_ = true;
      try {
        if (file_) {
          add_ids(*file_);
        } else {
          add_ids(outlined_file{read_file(path(), max_json_bytes), path(), "variants"});
        }
      } catch (const error&) {
        // Gone or invalid by now: it has no variants.
      }
    }
    return ids_.contains(id);
  }

 private:
  /// Adds the axes that variants' conditions and costs make of arguments, before a problem is looked at. Of
  /// most files, none names an argument, and no entry is parsed.
  void find_argument_axes(const json_place& whole) const {
    const detail::argument_names arguments{*op_};
    std::optional<json_place> shared;
    bool shared_names = false;
    if (whole.has("shared")) {
      shared.emplace(whole.at("shared"));
      if (shared->value().is_object()) {
        for (const auto& [unused, each] : shared->value().items()) {
          for (const char* const key : {"requires", "cost"}) {
            if (each.is_object() && each.contains(key))
              shared_names = shared_names || arguments.may_be_in(each[key].dump());
          }
        }
      }
    }
    detail::argument_finder named{arguments};
    detail::manifest_reader reader{*op_, {}, shared ? &*shared : nullptr};
    for (std::uint32_t i = 0; i < file_->entries().size(); ++i) {
      const outlined_file::entry& each = file_->entries()[i];
      const bool inherits = shared_names && (each.conditions.empty() || each.cost.empty());
      if (!inherits && !named.in(file_->spelt(each.conditions)) && !named.in(file_->spelt(each.cost)))
        continue;
      warnings later;  // said when the entry is read
      file_->parse_entry(i, later,
                         [&](const json_place& place, std::size_t) { reader.find_argument_axes(place); });
    }
  }

  void add_ids(const outlined_file& of) const {
    of.for_each_id([this](std::string id) { ids_.insert(std::move(id)); });
  }

  const operator_description* op_ = nullptr;
  std::optional<outlined_file> file_;
  manifest head_;
  mutable entry_cache<manifest> known_;
  mutable switchyard::mutex ids_mutex_;
  mutable bool has_ids_ = false;  // guarded by ids_mutex_, as what follows
  mutable std::unordered_set<std::string> ids_;
};

}  // namespace v0
}  // namespace switchyard
