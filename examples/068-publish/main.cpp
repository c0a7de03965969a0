// SPDX-License-Identifier: MIT
// An engine that takes published tables alone. `switchyard publish --key` stamps tables and manifests and
// signs them; here a table without a stamp is refused, and the published one is taken into use.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;

// An engine that checks signatures reads path + ".sig" here, 64 bytes, and asks its library of cryptography:
// with libsodium, crypto_sign_verify_detached(signature, bytes, size, public_key).
std::string accept(std::string_view bytes, const std::string&) {
  if (bytes.find("\"switchyard.table/1\"") == std::string_view::npos) return {};  // a manifest
  return bytes.find("\"release\"") == std::string_view::npos ? "it was not published" : "";
}

void put_table(std::string_view stamp) {
  std::filesystem::create_directories("store/current/tables/softmax");
  std::ofstream{"store/current/tables/softmax/any.json"}
      << "{" << stamp
      << R"("schema": "switchyard.table/1", "operator": "softmax", "device": {"backend": "host"}})";
}

}  // namespace

int main() {
  put_table("");
  sy::catalog_options options;
  options.roots = {"store/current"};  // of `switchyard publish build/share/switchyard store`
  options.accept = accept;
  options.receiver.write = [](void*, const sy::log_line& line) noexcept { std::puts(line.text.data()); };
  sy::catalog catalog{std::move(options)};
  sy::dispatcher<sy::operators::softmax> run{catalog, sy::device::host()};

  put_table(R"("release": {"serial": 12}, )");
  for (const std::string& path : catalog.reload().changed) std::printf("in use: %s\n", path.c_str());
}
