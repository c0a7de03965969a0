// SPDX-License-Identifier: MIT
// The main function of every test program, compiled once.
#ifdef SWITCHYARD_CATCH2_V2
#define CATCH_CONFIG_RUNNER
#endif
#include "catch.hpp"

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
    // A filter that matches no case fails.
#ifdef SWITCHYARD_CATCH2_V2
  constexpr auto strict = Catch::WarnAbout::NoTests;
#else
  constexpr auto strict = Catch::WarnAbout::UnmatchedTestSpec;
#endif
  auto& warnings = session.configData().warnings;
  warnings = static_cast<Catch::WarnAbout::What>(warnings | strict);
  return session.run();
}
