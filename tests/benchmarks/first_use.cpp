// SPDX-License-Identifier: MIT
// What an operator's first call costs in a fresh process, and a reload after it. first_use.py makes the
// files, runs this and prints the figures beside their bounds.
//
//   first_use ROOT [TYPES]
//
// Prints, a line each: CPU time from the start of main to the end of the first call, and what the peak of
// resident memory grew by meanwhile; the same after calls of TYPES types (100); CPU time of a reload after
// the table changed, how far memory then peaked above what was live before it, and what is live after it.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <memory>
#include <string>

#include <switchyard/devices/host/driver.hpp>
#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using attention = sy::operators::attention_forward;

double processor_ms() {
  std::timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// A line of /proc/self/status, in megabytes.
double status_mb(const std::string& key) {
  std::ifstream file{"/proc/self/status"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::strtod(line.c_str() + key.size() + 1, nullptr) / 1024;
  }
  return 0;
}

void reset_peak() {
  std::ofstream{"/proc/self/clear_refs"} << "5";
}

double live_mb() {
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd) / (1 << 20);
}

void print(const char* name, double value, const char* unit) {
  std::printf("%s|%.6f|%s\n", name, value, unit);
}

/// The call of a number: types change fastest.
attention::arguments call_of(int number) {
  static constexpr int dims[] = {16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 512};  // NOLINT
  static float value = 0;
  const sy::dtype type = number / 144 % 3 == 0   ? sy::dtype::f16
                         : number / 144 % 3 == 1 ? sy::dtype::bf16
                                                 : sy::dtype::f32;
  const sy::tensor all{&value, type, {4, 100, 32, dims[number / 12 % 12]}};
  attention::options with{.scale = 0.125F};
  if (number / 2 % 2 == 1) with.bias = sy::const_tensor{&value, type, {4, 32, 100, 100}};
  return attention::call(all, all, all, all, with);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: first_use ROOT [TYPES]\n");
    return 64;
  }
  const std::string root = argv[1];
  const int types = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 100;
  const double begin = processor_ms();
  const double before = status_mb("VmHWM");
  sy::catalog_options options;
  options.roots = {root};
  options.default_roots = false;
  sy::catalog catalog{options};
  sy::dispatcher<attention> attend{catalog, sy::device{std::make_shared<sy::host::driver>(1)}};
  attend(nullptr, call_of(0));
  const double first = processor_ms();
  print("first call, CPU", first - begin, "ms");
  print("first call, memory", status_mb("VmHWM") - before, "MB");

  int served = 0;
  for (int i = 0; served < types && i < 432; ++i) {
    try {
      attend(nullptr, call_of(i));
      ++served;
    } catch (const sy::error&) {  // a small set does not have the type
    }
  }
  print("calls of types", served, "");
  print("after these, CPU", processor_ms() - begin, "ms");
  print("after these, memory", status_mb("VmHWM") - before, "MB");

  const std::filesystem::path table = root + "/tables/attention_forward/device.json";
  std::filesystem::copy_file(table, root + "/next.json", std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(root + "/next.json", table);
  ::malloc_trim(0);
  const double live = live_mb();
  reset_peak();
  const double resident = status_mb("VmRSS");
  const double reloading = processor_ms();
  const bool changed = catalog.reload().changed.size() == 1;
  print("reload after a new table, CPU", processor_ms() - reloading, "ms");
  print("reload after a new table, peak above before", status_mb("VmHWM") - resident, "MB");
  print("live after the reload over before", live_mb() / live, "x");
  if (!changed) std::fprintf(stderr, "the table was not read again\n");
  return changed ? 0 : 1;
}
