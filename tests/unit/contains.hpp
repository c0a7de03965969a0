// CHECK_THAT(text, contains("part")), under the name that both versions of Catch2 understand.
#pragma once

#include <catch.hpp>
#include <string>

[[nodiscard]] inline auto contains(const std::string& part) {
#ifdef SWITCHYARD_CATCH2_V2
  return Catch::Matchers::Contains(part);
#else
  return Catch::Matchers::ContainsSubstring(part);
#endif
}
