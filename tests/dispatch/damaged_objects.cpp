// SPDX-License-Identifier: MIT
// Shared objects whose headers are damaged, as by a bad disk: refused with words before the system's loader,
// which would follow them, ends the process.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/devices/host/shared_object.hpp>
#include <switchyard/error.hpp>

#include "catch.hpp"
#include "child_process.hpp"
#include "test_disk.hpp"

namespace {

using namespace test;

template <class Integer>
[[nodiscard]] Integer read_at(const std::string& image, std::size_t at) {
  Integer out = 0;
  std::memcpy(&out, image.data() + at, sizeof out);
  return out;
}

/// Eight bytes of a header that say where something lies or how large it is.
struct place {
  std::string name;
  std::size_t at;
};

/// All of the program headers and of the dynamic section.
[[nodiscard]] std::vector<place> places(const std::string& image) {
  std::vector<place> out;
  const auto first = read_at<std::uint64_t>(image, 32);
  const auto count = read_at<std::uint16_t>(image, 56);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t head = first + 56 * i;
    const auto type = read_at<std::uint32_t>(image, head);
    if (type == 1 || type == 2) {
      for (const std::size_t field : {8U, 16U, 32U, 40U})
        out.push_back({"segment " + std::to_string(i) + " at " + std::to_string(field), head + field});
    }
    if (type != 2) continue;
    const auto dynamic = read_at<std::uint64_t>(image, head + 8);
    for (std::size_t at = dynamic; read_at<std::uint64_t>(image, at) != 0; at += 16) {
      out.push_back({"entry " + std::to_string(read_at<std::uint64_t>(image, at)), at + 8});
    }
  }
  return out;
}

/// 0: loaded and unloaded, 1: refused, 2: refused otherwise than for good.
[[nodiscard]] int load_in_child(const std::string& image) {
  return status_of_child([&image] {
    sy::host::driver driver{1};
    try {
      driver.unload(driver.load(std::as_bytes(std::span{image}), "blob.so"));
      return 0;
    } catch (const sy::driver_error& problem) {
      return problem.code() == sy::error_code::blob_not_loadable ? 1 : 2;
    }
  });
}

[[nodiscard]] std::string problem_of(const std::string& image) {
  return sy::host::shared_object{std::as_bytes(std::span{image})}.problem();
}

/// The same object with another 32-bit number in the hash table that the dynamic section names.
[[nodiscard]] std::string with_hash(std::string image, std::size_t word, std::uint32_t value) {
  constexpr std::uint64_t gnu_hash = 0x6ffffef5;
  for (const place& field : places(image)) {
    if (field.name != "entry " + std::to_string(gnu_hash)) continue;
    // In the first segment, whose addresses are offsets.
    std::memcpy(image.data() + read_at<std::uint64_t>(image, field.at) + 4 * word, &value, sizeof value);
    return image;
  }
  FAIL("no such table");
  return image;
}

}  // namespace

TEST_CASE("damaged headers of a shared object never end the process") {
  const std::string whole = read_text(disk::built("stamp.so"));
  REQUIRE(problem_of(whole).empty());
  REQUIRE(load_in_child(whole) == 0);
  const std::vector<place> all = places(whole);
  REQUIRE(all.size() > 20);
  int refused = 0;
  for (const place& field : all) {
    for (const std::uint64_t value :
         {std::uint64_t{1} << 62U, ~std::uint64_t{0}, std::uint64_t{whole.size()} * 2,
          read_at<std::uint64_t>(whole, field.at) + (std::uint64_t{1} << 32U)}) {
      std::string image = whole;
      std::memcpy(image.data() + field.at, &value, sizeof value);
      INFO(field.name << " is " << value << ": " << problem_of(image));
      const int status = load_in_child(image);
      CHECK((status == 0 || status == 1));
      refused += static_cast<int>(!problem_of(image).empty());
      if (!problem_of(image).empty()) CHECK(status == 1);
    }
  }
  CHECK(refused > static_cast<int>(2 * all.size()));
}

TEST_CASE("a damaged table of hashes is refused") {
  const std::string whole = read_text(disk::built("stamp.so"));
  const auto refusal = [&whole](std::size_t word, std::uint32_t value) {
    const std::string image = with_hash(whole, word, value);
    CHECK(load_in_child(image) == 1);
    return problem_of(image);
  };
  const std::string expected = "has a hash table that leads outside of its symbols";
  CHECK(refusal(0, 0) == expected);  // buckets: the loader divides by them
  CHECK(refusal(0, 1U << 30U) == expected);
  CHECK(refusal(1, 1U << 20U) == expected);  // the first symbol
  CHECK(refusal(2, 0) == expected);          // words of the filter
  CHECK(refusal(2, 3) == expected);
}
