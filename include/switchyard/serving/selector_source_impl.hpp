// SPDX-License-Identifier: MIT
// The bodies of selector_source.hpp.
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/known_files.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/files/warning_filter.hpp>
#include <switchyard/files/write_table.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/canary_selectors.hpp>
#include <switchyard/serving/file_selectors.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/serving/selector_source.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD selector_source::selector_source(search_path path,
                                                 std::function<std::string(std::string_view)> forced_for,
                                                 warning_sink warn, backend_probe why_absent,
                                                 file_check accept)
    : path_{std::move(path)},
      forced_for_{std::move(forced_for)},
      why_absent_{std::move(why_absent)},
      accept_{std::move(accept)},
      filter_{std::make_shared<warning_filter>(std::move(warn))} {}

template <class Content>
struct selector_source::reader {
  std::shared_ptr<const Content> read(const std::string& path,
                                      const std::shared_ptr<const Content>& same) const {
    return (source.*how)(path, op, known, same);
  }
  void warn(const std::string& message) const { source.filter_->add_shared(who, message); }

  const selector_source& source;
  std::shared_ptr<const Content> (selector_source::*how)(const std::string& path,
                                                         const operator_description& op,
                                                         const known_of_operator& known,
                                                         const std::shared_ptr<const Content>& same) const;
  const operator_description& op;
  const known_of_operator& known;
  std::string who;
};

SWITCHYARD_COLD void selector_source::put_before(table_files& of, const table_files& first) {
  table_files all = first;
  for (const auto& file : of) all.push_back(file);
  of.swap(all);
}

SWITCHYARD_COLD operator_files selector_source::refresh(const operator_description& op,
                                                        const device_properties* device,
                                                        reload_report& report) {
  const std::scoped_lock lock{mutex_};
  known_of_operator& known = files_[std::string{op.name}];
  known.ask_for(device);
  added_axes& added = known.added_axes_of(op);
  const operator_description& reading = added.reading();
  const std::string name{op.name};
  operator_files fresh;
  fresh.manifests = known.manifests.refresh(
      list_manifests(path_, op.name),
      reader<manifest_file>{*this, &selector_source::read_manifest, reading, known, name + " manifests"},
      report);
  fresh.tables = known.tables.refresh(
      list_tables(path_, op.name),
      reader<table_file>{*this, &selector_source::read_table, reading, known, name + " tables"}, report);
  fresh.overlays = known.overlays.refresh(
      list_overlays(path_, op.name),
      reader<table_file>{*this, &selector_source::read_overlay, reading, known, name + " overlays"}, report);
  if (!known.denied.empty() && differ(fresh.manifests, known.serving.manifests))
    drop_outdated_denials(known, fresh);
  put_before(fresh.overlays, known.denials);
  fresh.canary = known.canary.refresh(
      list_overlays({{}, path_.canary}, op.name),
      reader<table_file>{*this, &selector_source::read_overlay, reading, known, name + " canary"}, report);
  fresh.canary_share = canary_share_;
  keep_last_manifests(op, known, fresh);
  // Compared by what is served: a change that was read before an exception stopped a refresh is not lost.
  const operator_files& served = known.serving;
  const bool differs = differ(fresh.manifests, served.manifests) || differ(fresh.tables, served.tables) ||
                       differ(fresh.overlays, served.overlays) || differ(fresh.canary, served.canary) ||
                       fresh.canary_share != served.canary_share;
  fresh.version = served.version + (differs ? 1 : 0);
  fresh.described = &added.now();
  operator_files serving = fresh;  // whole, before anything is replaced
  known.serving = std::move(serving);
  return fresh;
}

SWITCHYARD_COLD operator_contents selector_source::read_all(const operator_files& from) const {
  operator_contents out;
  const auto add = [this](const auto& list, auto& to) {
    for (const auto& file : list) {
      if (!file->is_read()) continue;  // it could not be
      warnings warned;
      to.push_back(file->read_all(warned));
      filter_->add(warned, file->path());
    }
  };
  add(from.manifests, out.manifests);
  add(from.overlays, out.overlays);
  add(from.tables, out.tables);
  out.described = from.described;
  if (out.described != nullptr && out.described->added != nullptr)
    out.described = &out.described->added->now();  // with what only groups of rows name
  return out;
}

SWITCHYARD_COLD void selector_source::set_canary_share(double share) {
  if (!(share >= 0 && share <= 1)) {
    throw call_error{error_code::invalid_argument,
                     "the share of a canary is " + std::to_string(share) + ", but must be 0 to 1"};
  }
  const std::scoped_lock lock{mutex_};
  canary_share_ = share;
}

SWITCHYARD_COLD double selector_source::canary_share() const {
  const std::scoped_lock lock{mutex_};
  return canary_share_;
}

SWITCHYARD_COLD void selector_source::deny(const operator_description& op, const live_denial& denied) {
  table made;
  made.operator_name = op.name;
  made.device = denied.device;
  made.other_devices = false;
  made.denials.push_back({denied.variant, denied.reason, denied.type});
  const std::scoped_lock lock{mutex_};
  known_of_operator& known = files_[std::string{op.name}];
  const operator_description& reading = known.added_axes_of(op).reading();
  warnings ignored;
  auto file =
      std::make_shared<const table_file>(format_denials(reading, made), "live measuring", reading, ignored);
  known.denied.push_back(denied);
  known.denials.push_back(std::move(file));
}

SWITCHYARD_COLD void selector_source::drop_outdated_denials(known_of_operator& known,
                                                            const operator_files& fresh) const {
  operator_files manifests;
  manifests.manifests = fresh.manifests;
  const operator_contents all = read_all(manifests);
  for (std::size_t i = known.denied.size(); i-- > 0;) {
    const live_denial& denied = known.denied[i];
    const auto is_same = [&denied](const variant& found) {
      return found.id == denied.variant && found.type == denied.type &&
             blob_fingerprint(found) == denied.blobs;
    };
    if (detail::any_of(all.manifests.begin(), all.manifests.end(), [&is_same](const auto& file) {
          return detail::any_of(file->variants.begin(), file->variants.end(), is_same);
        }))
      continue;
    known.denied.erase(known.denied.begin() + static_cast<std::ptrdiff_t>(i));
    known.denials.erase(known.denials.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

SWITCHYARD_COLD std::shared_ptr<const operator_selectors> selector_source::make_selectors(
    const operator_description& op, const device_properties& device, const operator_files& from,
    choice_limits limits) const {
  std::shared_ptr<const operator_selectors> stable = make_file_selectors(op, device, from, limits);
  if (from.canary.empty() || !(from.canary_share > 0)) return stable;
  operator_files newer = from;
  put_before(newer.overlays, from.canary);
  return std::make_shared<const canary_selectors>(
      std::move(stable), make_file_selectors(op, device, newer, limits), from.canary_share);
}

SWITCHYARD_COLD std::shared_ptr<const operator_selectors> selector_source::make_file_selectors(
    const operator_description& op, const device_properties& device, const operator_files& from,
    choice_limits limits) const {
  return std::make_shared<const file_selectors>(
      op, device, from, forced_for_(op.name),
      file_selectors::listener{
          [said = filter_](const warnings& warned, const std::string& path) { said->add(warned, path); },
          [said = filter_](const std::vector<std::string>& warned) { said->add_once(warned); },
          [roots = path_.roots,
           probe = device.backend == "host" ? why_absent_ : backend_probe{}](failure_context& context) {
            context.searched = roots;
            for (std::string& root : context.searched) root += describe_root(root);
            for (const std::string& target : context.targets) {
              if (probe && context.absent.empty()) context.absent = probe(target);
            }
          }},
      std::move(limits));
}

SWITCHYARD_COLD std::shared_ptr<const selector> selector_source::make_selector(
    const operator_description& op, const device_properties& device, const operator_contents& from,
    choice_limits limits) const {
  std::vector<std::string> warned;
  const operator_description& described = from.described != nullptr ? *from.described : op;
  auto out = build_selector({&described, device, from.manifests, from.overlays, from.tables,
                             forced_for_(op.name), nullptr, std::move(limits)},
                            warned);
  filter_->add_once(warned);
  return out;
}

SWITCHYARD_COLD std::string selector_source::describe_root(const std::string& folder) {
  std::error_code problem;
  const bool is_there = std::filesystem::is_directory(folder, problem);
  if (problem && !detail::is_absent(problem)) return " (" + problem.message() + ")";
  if (!is_there) return " (does not exist)";
  const auto holds = [&](const char* name) {
    return std::filesystem::is_directory(std::filesystem::path{folder} / name, problem);
  };
  if (holds("kernels") || holds("tables")) return "";
  const std::filesystem::path path = (std::filesystem::path{folder} / "").parent_path();
  const bool is_inside = path.filename() == "kernels" || path.filename() == "tables";
  return " (has no folder kernels or tables" +
         (is_inside ? "; did you mean " + path.parent_path().string() + "?)" : ")");
}

SWITCHYARD_COLD added_axes& selector_source::known_of_operator::added_axes_of(
    const operator_description& op) {
  if (added == nullptr && op.added == nullptr) own_added = std::make_unique<added_axes>(op);
  if (added == nullptr) added = op.added != nullptr ? op.added : own_added.get();
  return *added;
}

SWITCHYARD_COLD void selector_source::known_of_operator::ask_for(const device_properties* device) {
  if (device == nullptr) {
    for_all_devices = true;
  } else if (!detail::any_of(devices.begin(), devices.end(), [device](const device_properties& known) {
               return known.backend == device->backend && known.arch == device->arch;
             })) {
    devices.push_back(*device);
  }
}

SWITCHYARD_COLD std::string selector_source::peek(const std::string& text, std::string_view object,
                                                  const char* key) {
  const json_document parsed = json_document::try_parse(find_member(text, object));
  const nlohmann::json& found = parsed.value();
  if (!found.is_object()) return {};
  const auto member = found.find(key);
  return member != found.end() && member->is_string() ? member->get_ref<const std::string&>() : std::string{};
}

SWITCHYARD_COLD std::shared_ptr<const manifest_file> selector_source::read_manifest(
    const std::string& path, const operator_description& op, const known_of_operator& known,
    const std::shared_ptr<const manifest_file>& same) const {
  const auto is_wanted = [&](const target& of) {
    return known.concerns(
        [&of](const device_properties& asked) { return target_fit(asked, of.backend, of.arch).has_value(); });
  };
  if (same != nullptr && (same->is_read() || !is_wanted(same->target()))) return same;
  const opened_file file{path, max_json_bytes};
  std::string text;
  file.read_on(text, head_bytes);
  const target of{peek(text, "target", "backend"), peek(text, "target", "arch")};
  const manifest_file* const before = serving_manifest(path, known);
  if (!of.backend.empty() && !of.arch.empty() && !is_wanted(of)) {
    if (before != nullptr)
      fail_useless(path, "it is for " + of.backend + " " + of.arch + ", and was for " +
                             before->target().backend + " " + before->target().arch);
    return std::make_shared<const manifest_file>(path, of);
  }
  warnings warned;
  file.read_on(text);
  require_accepted(text, path);
  if (before != nullptr) require_variants(text, path, op);
  filter_->forget(path);
  auto out = std::make_shared<const manifest_file>(std::move(text), path, op, warned);
  filter_->add(warned, path);
  return out;
}

SWITCHYARD_COLD const manifest_file* selector_source::serving_manifest(
    const std::string& path, const known_of_operator& known) noexcept {
  for (const auto& file : known.serving.manifests) {
    if (file->path() == path && file->is_read()) return file.get();
  }
  return nullptr;
}

SWITCHYARD_COLD void selector_source::require_variants(const std::string& text, const std::string& path,
                                                       const operator_description& op) {
  warnings warned;
  const manifest_file fresh{text, path, op, warned};
  if (!fresh.read_all(warned)->variants.empty()) return;
  fail_useless(path, warned.messages.empty() ? "it has no variants"
                                             : "none of its variants is valid: " + warned.messages.front());
}

SWITCHYARD_COLD void selector_source::fail_useless(const std::string& path, const std::string& why) {
  throw file_error{error_code::invalid_entry, path + ": nothing of it can be used: " + why};
}

SWITCHYARD_COLD void selector_source::require_accepted(const std::string& text,
                                                       const std::string& path) const {
  if (!accept_) return;
  std::string words;
  try {
    words = accept_(text, path);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    words = problem.what();
    if (words.empty()) words = "an exception without words";
  }
  if (!words.empty()) throw file_error{error_code::refused_file, path + ": the program refuses it: " + words};
}

SWITCHYARD_COLD std::shared_ptr<const table_file> selector_source::read_table(
    const std::string& path, const operator_description& op, const known_of_operator& known,
    const std::shared_ptr<const table_file>& same) const {
  const auto is_wanted = [&](const std::string& backend) {
    return known.concerns([&backend](const device_properties& on) { return on.backend == backend; });
  };
  if (same != nullptr && (same->is_read() || !is_wanted(same->head().device.backend))) return same;
  const opened_file file{path, max_json_bytes};
  std::string text;
  file.read_on(text, head_bytes);
  std::string backend = peek(text, "device", "backend");
  if (!backend.empty() && !is_wanted(backend))
    return std::make_shared<const table_file>(path, std::move(backend));
  warnings warned;
  file.read_on(text);
  require_accepted(text, path);
  filter_->forget(path);
  auto out = std::make_shared<const table_file>(std::move(text), path, op, warned);
  filter_->add(warned, path);
  return out;
}

SWITCHYARD_COLD std::shared_ptr<const table_file> selector_source::read_overlay(
    const std::string& path, const operator_description& op, const known_of_operator& known,
    const std::shared_ptr<const table_file>& same) const {
  try {
    return read_table(path, op, known, same);
  } catch (const file_error& problem) {
    if (problem.code() == error_code::unknown_operator) return nullptr;
    throw;
  }
}

SWITCHYARD_COLD void selector_source::keep_last_manifests(const operator_description& op,
                                                          known_of_operator& known,
                                                          operator_files& fresh) const {
  if (!fresh.manifests.empty()) {
    known.lost_manifests = false;
    return;
  }
  if (known.serving.manifests.empty()) return;
  fresh.manifests = known.serving.manifests;
  if (known.lost_manifests) return;
  filter_->warn("[switchyard.302] " + std::string{op.name} +
                ": its last manifest was removed; its variants stay in use. Install manifests again, or "
                "restart the program to remove them");
  known.lost_manifests = true;
}

}  // namespace v0
}  // namespace switchyard
