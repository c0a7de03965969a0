// SPDX-License-Identifier: MIT
// switchyard publish, verify and rollback: releases of tables and kernels that become current as a whole, and
// the way back.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>

#include "command.hpp"
#include "publish/provenance.hpp"
#include "publish/signature.hpp"
#include "publish/store.hpp"

using nlohmann::ordered_json;

namespace tool {

namespace {

struct publish_arguments {
  std::string root;
  std::string store;
  std::string key;
  std::size_t keep = 5;
  std::int64_t serial = 0;
};

void print_current(std::int64_t now, std::int64_t before, bool json) {
  if (json) {
    std::printf("%s\n", ordered_json{{"current", now}, {"before", before}}.dump().c_str());
  } else if (before == 0) {
    std::printf("current: %lld\n", static_cast<long long>(now));
  } else {
    std::printf("current: %lld (before: %lld)\n", static_cast<long long>(now),
                static_cast<long long>(before));
  }
}

void run_publish(const publish_arguments& arguments, session& session) {
  if (arguments.keep < 2)
    throw usage_error{"--keep: expected at least 2: the current release and the one before"};
  std::optional<signing_key> key;
  if (!arguments.key.empty()) key = signing_key::to_sign(arguments.key);
  release_store store = release_store::make(arguments.store);
  const std::int64_t before = store.current();
  const std::int64_t now = store.publish(arguments.root, provenance_of(arguments.root),
                                         key.has_value() ? &*key : nullptr, arguments.keep);
  print_current(now, before, session.json);
}

void run_rollback(const publish_arguments& arguments, session& session) {
  std::optional<signing_key> key;
  if (!arguments.key.empty()) key = signing_key::to_verify(arguments.key);
  release_store store{arguments.store};
  const std::int64_t before = store.current();
  const std::int64_t now = store.roll_back(arguments.serial, key.has_value() ? &*key : nullptr);
  print_current(now, before, session.json);
}

void run_verify(const publish_arguments& arguments, session& session) {
  std::optional<signing_key> key;
  if (!arguments.key.empty()) key = signing_key::to_verify(arguments.key);
  const release_store store{arguments.store};
  std::vector<std::string> wrong;
  const std::vector<std::int64_t> known = store.serials();
  const std::int64_t now = store.current();
  bool has_current = false;
  for (const std::int64_t version : known) {
    has_current |= version == now;
    const std::vector<std::string> found = store.verify(version, key.has_value() ? &*key : nullptr);
    wrong.insert(wrong.end(), found.begin(), found.end());
  }
  if (!has_current) wrong.push_back(arguments.store + ": no release is current");
  if (!wrong.empty()) session.status = status_finding;
  if (session.json) {
    std::printf("%s\n", ordered_json{{"current", now}, {"releases", known}, {"wrong", wrong}}
                            .dump(2, ' ', false, ordered_json::error_handler_t::replace)
                            .c_str());
    return;
  }
  for (const std::string& finding : wrong) std::printf("%s\n", switchyard::text::printable(finding).c_str());
  if (wrong.empty()) std::printf("%zu releases, current: %lld\n", known.size(), static_cast<long long>(now));
}

}  // namespace

void add_publish(CLI::App& app, session& session) {
  const auto arguments = std::make_shared<publish_arguments>();
  CLI::App* const publish = app.add_subcommand(
      "publish", "Copy tables/ and kernels/ of a root into a store, as its current release");
  publish->add_option("root", arguments->root, "The root")->required();
  publish->add_option("store", arguments->store, "The store: catalogs read STORE/current")->required();
  publish->add_option("--key", arguments->key, "Sign with this Ed25519 private key, a PEM file");
  publish->add_option("--keep", arguments->keep, "Number of releases to keep (default: 5)");
  publish->callback([arguments, &session] { run_publish(*arguments, session); });

  CLI::App* const verify = app.add_subcommand(
      "verify", "Compare a store's releases with what was published, and check their signatures");
  verify->add_option("store", arguments->store, "The store")->required();
  verify->add_option("--key", arguments->key, "Check signatures with this Ed25519 public key, a PEM file");
  verify->callback([arguments, &session] { run_verify(*arguments, session); });

  CLI::App* const rollback =
      app.add_subcommand("rollback", "Make the release before a store's current one current again");
  rollback->add_option("store", arguments->store, "The store")->required();
  rollback->add_option("--to", arguments->serial, "Another release, older or newer: its serial number");
  rollback->add_option("--key", arguments->key, "Check its signatures first with this Ed25519 public key");
  rollback->callback([arguments, &session] { run_rollback(*arguments, session); });
}

}  // namespace tool
