// SPDX-License-Identifier: MIT
// A manifest's parameters against those that the driver reports.
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/parameters/check_parameters.hpp>

#include "../launched_operator.hpp"

namespace compared_parameters {

using namespace launched;

/// What a kernel that takes these bytes is refused with.
std::string refusal(const std::vector<parameter>& wanted, const std::vector<std::uint32_t>& bytes) {
  std::vector<parameter_slot> found;
  for (const std::uint32_t size : bytes) found.push_back({0, size});
  try {
    check_parameters(kernel(wanted), found);
  } catch (const driver_error& problem) {
    CHECK(problem.code() == error_code::parameter_mismatch);
    return std::string{problem.message()};
  }
  return {};
}

TEST_CASE("parameters agree where their number and each one's bytes do") {
  using Catch::Matchers::Equals;
  const std::vector<parameter> wanted{argument("x"), argument("count"), argument("flags")};
  const std::string end = ". The manifest does not belong to this blob: build both together";
  CHECK_THAT(refusal(wanted, {8, 4, 1}), no_text());
  CHECK_THAT(refusal({}, {}), no_text());
  CHECK_THAT(refusal(wanted, {8, 4}),
             Equals("blob: kernel 'kernel': the manifest has 3 parameters, the kernel takes 2 (x (8 bytes), "
                    "count (4 bytes), flags (1 bytes))" +
                    end));
  CHECK_THAT(
      refusal(wanted, {4, 4, 1}),
      Equals("blob: kernel 'kernel': parameter 0, x, has 8 bytes in the manifest and 4 in the kernel" + end));
  CHECK_THAT(refusal(wanted, {8, 4, 2}), has_text("parameter 2, flags, has 1 bytes in the manifest and 2"));
}

}  // namespace compared_parameters
