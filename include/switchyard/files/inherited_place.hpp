// SPDX-License-Identifier: MIT
// An object of a manifest that inherits the fields of a shared one: {"like": "tile", "blob": "..."} has the
// fields of shared/tile, except for those that it states itself.
#pragma once

#include <optional>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>

namespace switchyard {
inline namespace v0 {

class inherited_place {
 public:
  /// `shared` is the file's member of that name; null: it has none. The places must outlive this one.
  inherited_place(const json_place& own, const json_place* shared);

  [[nodiscard]] const json_place& own() const noexcept { return *own_; }
  [[nodiscard]] bool has(const char* key) const { return own_->has(key) || (base_ && base_->has(key)); }
  /// Whether a member is the shared object's.
  [[nodiscard]] bool inherits(const char* key) const { return base_ && !own_->has(key) && base_->has(key); }
  /// A required member, of the object itself or of what it is like.
  [[nodiscard]] json_place at(const char* key) const&;
  json_place at(const char* key) const&& = delete;

 private:
  const json_place* own_;
  std::optional<json_place> base_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/inherited_place_impl.hpp>
#endif
