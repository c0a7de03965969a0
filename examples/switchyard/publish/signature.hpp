// SPDX-License-Identifier: MIT
// Ed25519 signatures beside files, by OpenSSL's libcrypto: 64 bytes, as `openssl pkeyutl -sign -rawin`
// writes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tool {

/// A key from a PEM file. Throws file_error invalid_entry if the file is no such key, and unsupported if the
/// tool was built without libcrypto.
class signing_key {
 public:
  /// A private key, as `openssl genpkey -algorithm ed25519` makes.
  [[nodiscard]] static signing_key to_sign(const std::string& path);
  /// A public key, as `openssl pkey -pubout` makes, or a private one.
  [[nodiscard]] static signing_key to_verify(const std::string& path);

  [[nodiscard]] std::string sign(std::string_view bytes) const;
  [[nodiscard]] bool verify(std::string_view bytes, std::string_view signature) const;

 private:
  explicit signing_key(std::shared_ptr<void> key) : key_{std::move(key)} {}

  std::shared_ptr<void> key_;  // an EVP_PKEY
};

}  // namespace tool
