// SPDX-License-Identifier: MIT
// What a CUDA image is, judged by its bytes.
#include <cstdint>
#include <cstring>
#include <string>

#include <switchyard/devices/cuda/image.hpp>

#include "catch.hpp"

namespace {

namespace cuda = switchyard::cuda;

template <class Integer>
void put(std::string& file, std::size_t at, Integer value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

/// An ELF file with a section table of three: none, one of 16 bytes, one that takes no bytes of the file.
std::string cubin(std::uint8_t abi_version, std::uint32_t flags) {
  std::string file(64 + 16 + 3 * 64, '\0');
  std::memcpy(file.data(),
              "\x7f"
              "ELF\x02\x01\x01\x41",
              8);
  put(file, 8, abi_version);
  put(file, 18, std::uint16_t{190});
  put(file, 40, std::uint64_t{80});
  put(file, 48, flags);
  put(file, 58, std::uint16_t{64});
  put(file, 60, std::uint16_t{3});
  const std::size_t first = 80 + 64;
  put(file, first + 4, std::uint32_t{1});
  put(file, first + 24, std::uint64_t{64});
  put(file, first + 32, std::uint64_t{16});
  const std::size_t second = first + 64;
  put(file, second + 4, std::uint32_t{8});
  put(file, second + 24, std::uint64_t{1} << 60U);
  put(file, second + 32, std::uint64_t{1} << 60U);
  return file;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

cuda::image_kind kind(const std::string& file) {
  return cuda::kind_of(bytes_of(file));
}

}  // namespace

TEST_CASE("cubins") {
  const std::string file = cubin(8, 0x6005a04);
  CHECK(kind(file) == cuda::image_kind::cubin);
  CHECK(cuda::compute_capability_of(bytes_of(file)) == 90);
  CHECK(cuda::compute_capability_of(bytes_of(cubin(7, 0x00500550))) == 80);  // as before CUDA 13
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    const std::string cut = file.substr(0, bytes);
    REQUIRE(kind(cut) == cuda::image_kind::broken);
  }
  std::string other = file;
  put(other, 18, std::uint16_t{62});
  CHECK(kind(other) == cuda::image_kind::broken);
  CHECK(!cuda::compute_capability_of(bytes_of(other)));
  std::string beyond = file;
  put(beyond, 80 + 64 + 32, std::uint64_t{~0ULL});
  CHECK(kind(beyond) == cuda::image_kind::broken);
  std::string table = file;
  put(table, 40, std::uint64_t{~0ULL} - 10);
  CHECK(kind(table) == cuda::image_kind::broken);
  std::string many = file;
  put(many, 60, std::uint16_t{0});
  put(many, 80 + 32, std::uint64_t{1} << 62U);  // the count of sections, where it does not fit the header
  CHECK(kind(many) == cuda::image_kind::broken);
  put(many, 80 + 32, std::uint64_t{3});
  CHECK(kind(many) == cuda::image_kind::cubin);
}

TEST_CASE("fatbins") {
  std::string file(16 + 32, '\0');
  put(file, 0, std::uint32_t{0xba55ed50});
  put(file, 4, std::uint16_t{1});
  put(file, 6, std::uint16_t{16});
  put(file, 8, std::uint64_t{32});
  CHECK(kind(file) == cuda::image_kind::fatbin);
  CHECK(kind(file + "padding") == cuda::image_kind::fatbin);
  CHECK(kind(file.substr(0, 47)) == cuda::image_kind::broken);
  CHECK(kind(file.substr(0, 10)) == cuda::image_kind::broken);
  put(file, 8, std::uint64_t{~0ULL});
  CHECK(kind(file) == cuda::image_kind::broken);
}

TEST_CASE("PTX") {
  CHECK(kind("//\n.version 8.0\n.target sm_90\n") == cuda::image_kind::ptx);
  CHECK(kind(".version 8.0\n") == cuda::image_kind::broken);
  CHECK(kind("") == cuda::image_kind::broken);
  CHECK(kind("#!/bin/sh\n") == cuda::image_kind::broken);
}

TEST_CASE("devices are named as nvcc names them") {
  CHECK(cuda::architecture_name(103) == "sm_103");
}
