// SPDX-License-Identifier: MIT
#include "publish/signature.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>

#ifdef SWITCHYARD_TOOL_SIGNS
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#endif

namespace sy = switchyard;

namespace tool {

#ifdef SWITCHYARD_TOOL_SIGNS

namespace {

constexpr std::size_t signature_bytes = 64;

[[nodiscard]] const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

struct digest {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  digest() = default;
  digest(const digest&) = delete;
  digest& operator=(const digest&) = delete;
  ~digest() { EVP_MD_CTX_free(context); }
};

/// Refuses keys with a passphrase instead of asking for it.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

[[nodiscard]] std::shared_ptr<void> read_key(const std::string& path, bool is_private) {
  constexpr std::size_t max_key_bytes = 1U << 16U;
  const std::string text = sy::read_file(path, max_key_bytes);
  const auto read = [&text](auto* how) {
    BIO* const from = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
    EVP_PKEY* const out = how(from, nullptr, no_passphrase, nullptr);
    BIO_free(from);
    return std::shared_ptr<void>{out, [](void* key) { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); }};
  };
  std::shared_ptr<void> out = read(&PEM_read_bio_PrivateKey);
  if (out == nullptr && !is_private) out = read(&PEM_read_bio_PUBKEY);
  if (out == nullptr || EVP_PKEY_id(static_cast<EVP_PKEY*>(out.get())) != EVP_PKEY_ED25519) {
    throw sy::file_error{
        sy::error_code::invalid_entry,
        path + ": is no Ed25519 " + (is_private ? "private" : "public") +
            " key in PEM without a passphrase; `openssl genpkey -algorithm ed25519` makes one"};
  }
  return out;
}

}  // namespace

signing_key signing_key::to_sign(const std::string& path) {
  return signing_key{read_key(path, true)};
}

signing_key signing_key::to_verify(const std::string& path) {
  return signing_key{read_key(path, false)};
}

std::string signing_key::sign(std::string_view bytes) const {
  const digest with;
  std::string out(signature_bytes, '\0');
  std::size_t length = out.size();
  if (EVP_DigestSignInit(with.context, nullptr, nullptr, nullptr, static_cast<EVP_PKEY*>(key_.get())) != 1 ||
      EVP_DigestSign(with.context, reinterpret_cast<unsigned char*>(out.data()), &length, bytes_of(bytes),
                     bytes.size()) != 1 ||
      length != out.size())
    throw sy::file_error{sy::error_code::invalid_entry, "libcrypto cannot sign with the key"};
  return out;
}

bool signing_key::verify(std::string_view bytes, std::string_view signature) const {
  const digest with;
  return signature.size() == signature_bytes &&
         EVP_DigestVerifyInit(with.context, nullptr, nullptr, nullptr, static_cast<EVP_PKEY*>(key_.get())) ==
             1 &&
         EVP_DigestVerify(with.context, bytes_of(signature), signature.size(), bytes_of(bytes),
                          bytes.size()) == 1;
}

#else

namespace {
[[noreturn]] void fail_without_libcrypto() {
  throw sy::file_error{
      sy::error_code::invalid_entry,
      "--key: this tool was built without libcrypto (Debian: libssl-dev), so it neither signs "
      "nor checks signatures"};
}
}  // namespace

signing_key signing_key::to_sign(const std::string&) {
  fail_without_libcrypto();
}
signing_key signing_key::to_verify(const std::string&) {
  fail_without_libcrypto();
}
std::string signing_key::sign(std::string_view) const {
  fail_without_libcrypto();
}
bool signing_key::verify(std::string_view, std::string_view) const {
  fail_without_libcrypto();
}

#endif

}  // namespace tool
