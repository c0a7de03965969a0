// SPDX-License-Identifier: MIT
#include "counts.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "kinds.hpp"

namespace emulator {

namespace {

struct totals {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> kinds;
  std::map<std::string, std::uint64_t> kernels;
  std::set<std::string> occurring;
  std::set<std::string> agreeing;
  std::set<std::string> uncompared;

  ~totals() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): at the program's end
    const char* const path = std::getenv("HIP_EMULATOR_COUNTS");
    if (path == nullptr) return;
    std::ofstream out{path};
    for (const auto& [name, count] : kinds) out << "instruction " << name << ' ' << count << '\n';
    for (const std::string& name : occurring) out << "occurs " << name << '\n';
    for (const auto& [name, count] : kernels) out << "kernel " << name << ' ' << count << '\n';
    for (const std::string& name : agreeing) out << "agrees " << name << '\n';
    for (const std::string& name : uncompared) out << "uncompared " << name << '\n';
  }
};

totals& all() {
  static totals one;
  return one;
}

}  // namespace

counts::counts() : kinds_(emulator::kinds.size()) {
  (void)all();
}

counts::~counts() {
  totals& sum = all();
  const std::scoped_lock lock{sum.mutex};
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i] != 0) sum.kinds[emulator::kinds[i].name] += kinds_[i];
  }
}

void counts::launched(const std::string& image, const std::string& kernel) {
  totals& sum = all();
  const std::scoped_lock lock{sum.mutex};
  ++sum.kernels[image + ' ' + kernel];
}

void counts::compared(const std::string& image, const std::string& kernel, bool could_be) {
  totals& sum = all();
  const std::scoped_lock lock{sum.mutex};
  (could_be ? sum.agreeing : sum.uncompared).insert(image + ' ' + kernel);
}

void counts::occurs(const char* kind) {
  totals& sum = all();
  const std::scoped_lock lock{sum.mutex};
  sum.occurring.insert(kind);
}

}  // namespace emulator
