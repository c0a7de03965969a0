// SPDX-License-Identifier: MIT
#include "process_facts.hpp"

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace llm {

double process_seconds() {
  std::ifstream file{"/proc/self/stat"};
  const std::string text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  const std::size_t name_end = text.rfind(')');  // a program's name may have spaces
  if (name_end == std::string::npos) return 0;
  std::istringstream rest{text.substr(name_end + 1)};
  std::string word;
  constexpr int before = 19;  // fields between the name, the second one, and the start, the 22nd
  for (int i = 0; i < before && rest >> word; ++i) {
  }
  double ticks = 0;
  std::timespec now{};
  if (!(rest >> ticks) || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double started = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 - started;
}

std::int64_t peak_host_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace llm
