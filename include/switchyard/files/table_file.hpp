// A tuning table on disk, of which groups of rows are parsed when problems of their type are asked for.
//
// Immutable but for what it keeps of earlier reading. Any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <switchyard/error.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_argument_axis.hpp>
#include <switchyard/files/read_group.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

class table_file {
 public:
  /// A file of which only its path and its device's backend are needed, and known.
  table_file(std::string path, std::string backend) {
    head_.path = std::move(path);
    head_.device.backend = std::move(backend);
  }

  /// Throws file_error for the file as a whole. `path` names it in messages.
  table_file(std::string text, const std::string& path, const operator_description& op, warnings& warned)
      : op_{&op} {
    file_.emplace(std::move(text), path, "groups");
    const json_place whole{file_->head(), path};
    head_ = detail::table_reader{op, warned}.read_head(whole);
    if (whole.has("groups")) {
      const auto list = whole.at("groups");
      (void)list.array_size();  // throws: it is no array
    }
    file_->read_types(op, warned);
    if (op.arguments != nullptr) find_argument_axes();
  }

  [[nodiscard]] const std::string& path() const noexcept { return head_.path; }
  /// The table without its rows.
  [[nodiscard]] const table& head() const noexcept { return head_; }
  [[nodiscard]] bool is_read() const noexcept { return file_.has_value(); }
  /// Of a file that is read.
  [[nodiscard]] const outlined_file& outline() const noexcept { return *file_; }

  /// The table with these of its groups; shared with earlier readers of the same ones. Groups and rows that
  /// cannot be read become warnings, once. The file is read.
  [[nodiscard]] std::shared_ptr<const table> read(const entry_list& entries, warnings& warned) const {
    return known_.get(entries, [&] {
      auto out = std::make_shared<table>(head_);
      warnings said;  // once already
      detail::table_reader reader{*op_, said};
      reader.read_blobs({file_->head(), path()}, said);
      out->groups.reserve(entries.size());
      for (const std::uint32_t each : entries) {
        warnings& to = known_.is_first_read(each) ? warned : said;
        file_->parse_entry(each, to, [&](const json_place& place, std::size_t index) {
          reader.add_group(place, index, *out, to);
        });
      }
      return out;
    });
  }

  /// The table with all its groups. The file is read.
  [[nodiscard]] std::shared_ptr<const table> read_all(warnings& warned) const {
    return read(every_entry(file_->entries().size()), warned);
  }

 private:
  /// Adds the axes that groups make of arguments, before a problem is looked at.
  void find_argument_axes() const {
    const detail::argument_names arguments{*op_};
    detail::argument_finder named{arguments};
    for (std::uint32_t i = 0; i < file_->entries().size(); ++i) {
      if (!named.in(file_->spelt(file_->entries()[i].axes))) continue;
      warnings later;  // said when the entry is read
      file_->parse_entry(i, later, [&](const json_place& place, std::size_t) {
        (void)detail::group_reader::read_axes(place, *op_);
      });
    }
  }

  const operator_description* op_ = nullptr;
  std::optional<outlined_file> file_;
  table head_;
  mutable entry_cache<table> known_;
};

}  // namespace v0
}  // namespace switchyard
