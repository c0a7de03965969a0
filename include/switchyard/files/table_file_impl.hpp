// SPDX-License-Identifier: MIT
// The bodies of table_file.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/files/table_file.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD table_file::table_file(std::string path, std::string backend) {
  head_.path = std::move(path);
  head_.device.backend = std::move(backend);
}

SWITCHYARD_COLD table_file::table_file(std::string text, const std::string& path,
                                       const operator_description& op, warnings& warned)
    : op_{&op} {
  file_.emplace(std::move(text), path, "groups");
  const json_place whole{file_->head(), path};
  head_ = detail::table_reader{op, warned}.read_head(whole);
  if (whole.has("groups")) {
    const auto list = whole.at("groups");
    (void)list.array_size();  // throws: it is no array
  }
  file_->read_types(op, warned);
}

SWITCHYARD_COLD std::shared_ptr<const table> table_file::read(const entry_list& entries,
                                                              warnings& warned) const {
  return known_.get(entries, [&] {
    // By member, without the groups: nothing else copies them, so that no code for it is compiled.
    const std::shared_ptr<table> out{new table{head_.path,
                                               head_.operator_name,
                                               head_.device,
                                               head_.other_devices,
                                               head_.measured_on,
                                               head_.match,
                                               {},
                                               head_.denials,
                                               head_.pins}};
    warnings said;  // once already
    detail::table_reader reader{*op_, said};
    reader.read_blobs({file_->head(), path()}, said);
    out->groups.reserve(entries.size());
    for (const std::uint32_t entry : entries) {
      warnings& to = known_.is_first_read(entry) ? warned : said;
      file_->parse_entry(entry, to, [&](const json_place& place, std::size_t index) {
        reader.add_group(place, index, *out, to);
      });
    }
    return out;
  });
}

}  // namespace v0
}  // namespace switchyard
