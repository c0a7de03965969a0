// SPDX-License-Identifier: MIT
// A locale whose decimal point is a comma, as an engine's may be.
#pragma once

#include <clocale>
#include <cstdlib>
#include <string>

#include "temporary.hpp"

// NOLINTBEGIN(concurrency-mt-unsafe): no test changes locale or environment beside other threads
class comma_locale {
 public:
  comma_locale() {
    const std::string build =
        "localedef -i de_DE -f UTF-8 " + (folder_ / "de_DE.UTF-8") + " > /dev/null 2>&1";
    if (std::system(build.c_str()) != 0) return;
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    in_force_ = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
  }
  comma_locale(const comma_locale&) = delete;
  comma_locale& operator=(const comma_locale&) = delete;
  ~comma_locale() {
    std::setlocale(LC_NUMERIC, "C");
    ::unsetenv("LOCPATH");
  }
  /// False where the machine cannot make the locale.
  [[nodiscard]] bool in_force() const noexcept { return in_force_; }

 private:
  temporary_folder folder_;
  bool in_force_ = false;
};
// NOLINTEND(concurrency-mt-unsafe)
