// An object of a manifest that takes over the fields of a shared one: {"like": "tile", "blob": "..."} has
// what shared/tile has, but for what it says itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/files/json.hpp>

namespace switchyard {
inline namespace v0 {

class inherited_place {
 public:
  /// `shared` is the file's member of that name; null: it has none. The places must outlive this one.
  inherited_place(const json_place& own, const json_place* shared) : own_{&own} {
    if (!own.has("like")) return;
    const auto like = own.at("like");
    const std::string& name = like.string();
    if (shared == nullptr || !shared->has(name.c_str())) {
      std::vector<std::string> names;
      if (shared != nullptr) {
        for (const auto& [each, unused] : shared->object()) names.push_back(each);
      }
      like.fail("the file's 'shared' has no '" + text::shortened(name, 60) + "'" +
                text::suggestion(name, names) +
                (names.empty() ? "; it has nothing" : "; it has " + text::join(names)));
    }
    base_.emplace(shared->at(name.c_str()));
    for (const char* const each : {"like", "id", "type"}) {
      if (base_->has(each)) base_->fail("a shared object has no '" + std::string{each} + "'");
    }
  }

  [[nodiscard]] const json_place& own() const noexcept { return *own_; }
  [[nodiscard]] bool has(const char* key) const { return own_->has(key) || (base_ && base_->has(key)); }
  /// Whether a member is the shared object's.
  [[nodiscard]] bool inherits(const char* key) const { return base_ && !own_->has(key) && base_->has(key); }
  /// A required member, of the object itself or of what it is like.
  [[nodiscard]] json_place at(const char* key) const& {
    if (base_) {  // one look at each, since most members are the shared object's
      if (auto found = own_->find(key)) return *found;
      if (auto found = base_->find(key)) return *found;
    }
    return own_->at(key);
  }
  json_place at(const char* key) const&& = delete;

 private:
  const json_place* own_;
  std::optional<json_place> base_;
};

}  // namespace v0
}  // namespace switchyard
