// SPDX-License-Identifier: MIT
// switchyard list: operators, targets, variants and tables of the search path.
#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "devices.hpp"
#include "operators.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct list_arguments {
  std::string operator_name;
  std::vector<std::string> types;
  std::string target;
  std::string variant;
  bool variants = false;
  bool devices = false;
};

[[nodiscard]] std::string target_name(const sy::manifest& from) {
  return from.target.backend + "-" + from.target.arch;
}

/// The filters of one command line over one operator.
class filter {
 public:
  filter(const list_arguments& arguments, const sy::operator_description& op) : arguments_{arguments} {
    for (const std::string& word : arguments.types) {
      const axis_word wanted = require_axis_word(op, word);
      if (op.axes[wanted.axis].kind != sy::axis_kind::type) {
        throw usage_error{"'" + word + "' is a size; list filters by type axes"};
      }
      types_.push_back(wanted);
    }
  }

  [[nodiscard]] bool takes(const sy::manifest& from) const {
    return arguments_.target.empty() || target_name(from).find(arguments_.target) != std::string::npos;
  }
  [[nodiscard]] bool takes(const sy::variant& variant) const {
    return variant.id.find(arguments_.variant) != std::string::npos && takes(variant.type);
  }
  /// Whether a variant or group of this type matches the filters.
  [[nodiscard]] bool takes(const std::vector<sy::axis_value>& type) const {
    return std::none_of(types_.begin(), types_.end(), [&type](const axis_word& wanted) {
      return std::any_of(type.begin(), type.end(), [&wanted](const sy::axis_value& has) {
        return has.axis == wanted.axis && has.value != wanted.value;
      });
    });
  }
  /// Whether individual variants are requested.
  [[nodiscard]] bool detailed() const {
    return arguments_.variants || !arguments_.variant.empty() || !types_.empty();
  }

 private:
  const list_arguments& arguments_;
  std::vector<axis_word> types_;
};

[[nodiscard]] std::size_t count_blobs(const sy::manifest& from) {
  std::set<std::string> blobs;
  for (const sy::variant& variant : from.variants) {
    for (const sy::launch& launch : variant.launches) {
      if (!launch.is_fill) blobs.insert(launch.blob);
    }
  }
  return blobs.size();
}

[[nodiscard]] ordered_json describe_variant(const sy::operator_description& op, const sy::variant& variant) {
  ordered_json out{{"id", variant.id}, {"type", ordered_json::object()}, {"config", ordered_json::object()}};
  for (const sy::axis_value& value : variant.type) {
    out["type"][std::string{op.axes[value.axis].name}] = sy::format_value(op.axes[value.axis], value.value);
  }
  for (const sy::config_entry& entry : variant.config) out["config"][entry.name] = entry.value;
  out["requires"] = ordered_json::array();
  for (const sy::condition& condition : variant.conditions) out["requires"].push_back(condition.text);
  if (!variant.cost.text.empty()) out["cost"] = variant.cost.text;
  if (variant.cost_us > 0) out["cost_us"] = variant.cost_us;
  if (!variant.cost_ns.text.empty()) out["cost_ns"] = variant.cost_ns.text;
  out["launches"] = ordered_json::array();
  for (const sy::launch& launch : variant.launches) {
    if (launch.is_fill) {
      out["launches"].push_back({{"fill", variant.workspace[launch.fill_workspace].name}});
    } else {
      out["launches"].push_back(
          {{"kernel", launch.kernel}, {"blob", launch.blob}, {"sha256", launch.sha256}});
    }
  }
  return out;
}

[[nodiscard]] ordered_json describe_device(const sy::device_properties& device) {
  ordered_json out{{"backend", device.backend}, {"arch", device.arch}, {"name", device.name}};
  for (std::size_t i = 0; i < sy::attribute_names.size(); ++i) {
    if (device.attributes[i] != 0) out[std::string{sy::attribute_names[i]}] = device.attributes[i];
  }
  return out;
}

[[nodiscard]] ordered_json describe_table(const sy::operator_description& op, const sy::table& from,
                                          bool overlay, const filter& wanted) {
  ordered_json out{{"path", from.path}, {"overlay", overlay}, {"device", describe_device(from.device)}};
  std::size_t rows = 0;
  out["groups"] = ordered_json::array();
  for (const sy::row_group& group : from.groups) {
    if (!wanted.takes(group.type)) continue;
    ordered_json type = ordered_json::object();
    for (const sy::axis_value& value : group.type) {
      type[std::string{op.axes[value.axis].name}] = sy::format_value(op.axes[value.axis], value.value);
    }
    out["groups"].push_back({{"type", type}, {"rows", group.row_count()}, {"variants", group.ids.size()}});
    rows += group.row_count();
  }
  out["rows"] = rows;
  out["deny"] = from.denials.size();
  out["pin"] = from.pins.size();
  return out;
}

[[nodiscard]] ordered_json describe_operator(sy::catalog& catalog, const known_operator& known,
                                             const list_arguments& arguments) {
  const sy::operator_description& op = *known.description;
  const filter wanted{arguments, op};
  const auto files = catalog.files(op);
  ordered_json out{
      {"name", std::string{op.name}}, {"axes", ordered_json::array()}, {"targets", ordered_json::array()}};
  for (const sy::axis_description& described : op.axes) {
    ordered_json axis{{"name", described.name},
                      {"kind", described.kind == sy::axis_kind::type ? "type" : "size"}};
    if (!described.value_names.empty()) axis["values"] = described.value_names;
    out["axes"].push_back(std::move(axis));
  }
  for (const auto& manifest : files.manifests) {
    if (!wanted.takes(*manifest)) continue;
    ordered_json target{{"target", target_name(*manifest)},
                        {"manifest", manifest->path},
                        {"built_by", manifest->built_by},
                        {"blobs", count_blobs(*manifest)},
                        {"variants", ordered_json::array()}};
    for (const sy::variant& variant : manifest->variants) {
      if (wanted.takes(variant)) target["variants"].push_back(describe_variant(op, variant));
    }
    out["targets"].push_back(std::move(target));
  }
  out["tables"] = ordered_json::array();
  for (const auto& table : files.overlays) out["tables"].push_back(describe_table(op, *table, true, wanted));
  for (const auto& table : files.tables) out["tables"].push_back(describe_table(op, *table, false, wanted));
  return out;
}

/// Returns false if nothing is installed for the operator.
[[nodiscard]] bool print_operator(sy::catalog& catalog, const known_operator& known,
                                  const list_arguments& arguments) {
  const sy::operator_description& op = *known.description;
  const filter wanted{arguments, op};
  const auto files = catalog.files(op);
  if (files.manifests.empty() && files.tables.empty() && files.overlays.empty()) return false;
  std::printf("%s\n", std::string{op.name}.c_str());
  std::string types;
  std::string sizes;
  for (const sy::axis_description& axis : op.axes) {
    std::string& into = axis.kind == sy::axis_kind::type ? types : sizes;
    into += " " + std::string{axis.name};
  }
  std::printf("  type axes:%s\n  size axes:%s\n", types.c_str(), sizes.c_str());
  for (const auto& manifest : files.manifests) {
    if (!wanted.takes(*manifest)) continue;
    const auto taken =
        static_cast<std::size_t>(std::count_if(manifest->variants.begin(), manifest->variants.end(),
                                               [&wanted](const sy::variant& v) { return wanted.takes(v); }));
    std::printf("  %-20s %zu variants in %zu blobs, %s\n", target_name(*manifest).c_str(), taken,
                count_blobs(*manifest), sy::text::printable(manifest->path).c_str());
    if (!wanted.detailed()) continue;
    for (const sy::variant& variant : manifest->variants) {
      if (!wanted.takes(variant)) continue;
      const std::string config = sy::format_config(variant);
      std::printf("    %-28s %s%s%s\n", variant.id.c_str(), format_type(op, variant.type).c_str(),
                  config.empty() ? "" : "; ", config.c_str());
    }
  }
  const auto print_table = [&](const sy::table& from, bool overlay) {
    std::size_t rows = 0;
    std::size_t groups = 0;
    for (const sy::row_group& group : from.groups) {
      if (!wanted.takes(group.type)) continue;
      rows += group.row_count();
      ++groups;
    }
    const std::string device = from.device.name.empty() ? std::string{"any device"}
                                                        : from.device.name + " (" + from.device.backend +
                                                              " " + from.device.arch + ")";
    std::printf("  %-20s %s: %zu rows in %zu groups, %zu denied, %zu pinned, %s\n",
                overlay ? "overlay" : "table", device.c_str(), rows, groups, from.denials.size(),
                from.pins.size(), sy::text::printable(from.path).c_str());
  };
  for (const auto& table : files.overlays) print_table(*table, true);
  for (const auto& table : files.tables) print_table(*table, false);
  return true;
}

void run(const list_arguments& arguments, session& session) {
  sy::catalog catalog{session.options()};
  std::vector<const known_operator*> shown;
  if (arguments.operator_name.empty()) {
    if (!arguments.types.empty()) throw usage_error{"axis=value filters need an operator before them"};
    for (const known_operator& known : known_operators()) shown.push_back(&known);
  } else {
    shown.push_back(&require_operator(arguments.operator_name, catalog.roots()));
    (void)filter{arguments, *shown.front()->description};  // says what is wrong before anything is printed
  }
  std::vector<std::string> strangers;
  if (arguments.operator_name.empty()) {
    for (const std::string& name : catalog.operators()) {
      if (find_operator(name) != nullptr) continue;
      strangers.push_back(name);
      if (const known_operator* const learned = learn_installed(catalog.roots(), name))
        shown.push_back(learned);
    }
  }
  if (session.json) {
    ordered_json out{
        {"roots", catalog.roots()}, {"operators", ordered_json::array()}, {"unknown", strangers}};
    for (const known_operator* known : shown) {
      out["operators"].push_back(describe_operator(catalog, *known, arguments));
    }
    out["devices"] = ordered_json::array();
    for (const known_device& known : known_devices(catalog)) {
      ordered_json device = describe_device(known.properties);
      device["source"] = known.source;
      out["devices"].push_back(std::move(device));
    }
    std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return;
  }
  if (arguments.devices) {
    for (const known_device& device : known_devices(catalog)) {
      std::printf("%s (%s %s), from %s\n", sy::text::printable(device.properties.name).c_str(),
                  device.properties.backend.c_str(), device.properties.arch.c_str(),
                  sy::text::printable(device.source).c_str());
    }
    return;
  }
  for (const std::string& root : catalog.roots()) std::printf("root %s\n", sy::text::printable(root).c_str());
  std::vector<std::string_view> absent;
  for (const known_operator* known : shown) {
    if (!print_operator(catalog, *known, arguments)) absent.push_back(known->description->name);
  }
  if (!absent.empty()) std::printf("nothing is installed for %s\n", sy::text::join(absent, 40).c_str());
  if (!strangers.empty()) {
    std::printf("not described to this program, so known from files alone: %s\n",
                sy::text::printable(sy::text::join(strangers, 40)).c_str());
  }
}

}  // namespace

void add_list(CLI::App& app, session& session) {
  auto* const command = app.add_subcommand("list", "Show the operators, targets, variants and tables found");
  const auto arguments = std::make_shared<list_arguments>();
  command->add_option("operator", arguments->operator_name, "Only this operator");
  command->add_option("filter", arguments->types,
                      "Only variants that can serve these type axes: axis=value ...");
  command->add_option("--target", arguments->target,
                      "Only targets that contain this text, such as cuda or sm_90a");
  command->add_option("--variant", arguments->variant, "Only variants whose id contains this text");
  command->add_flag("--variants", arguments->variants, "Show each variant");
  command->add_flag("--devices", arguments->devices, "Show the devices that explain knows by name");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
