// SPDX-License-Identifier: MIT
// The bodies of inherited_place.hpp.
#pragma once

#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/inherited_place.hpp>
#include <switchyard/files/json.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION inherited_place::inherited_place(const json_place& own, const json_place* shared)
    : own_{&own} {
  if (!own.has("like")) return;
  const auto like = own.at("like");
  const std::string& name = like.string();
  if (shared == nullptr || !shared->has(name.c_str())) {
    std::vector<std::string> names;
    if (shared != nullptr) {
      for (const auto& [key, unused] : shared->object()) names.push_back(key);
    }
    like.fail("the file's 'shared' has no '" + text::shortened(name, 60) + "'" +
              text::suggestion(name, names) +
              (names.empty() ? "; it has nothing" : "; it has " + text::join(names)));
  }
  base_.emplace(shared->at(name.c_str()));
  for (const char* const key : {"like", "id", "type"}) {
    if (base_->has(key)) base_->fail("a shared object has no '" + std::string{key} + "'");
  }
}

SWITCHYARD_FUNCTION json_place inherited_place::at(const char* key) const& {
  if (base_) {  // one look at each, since most members are the shared object's
    if (auto found = own_->find(key)) return *found;
    if (auto found = base_->find(key)) return *found;
  }
  return own_->at(key);
}

}  // namespace v0
}  // namespace switchyard
