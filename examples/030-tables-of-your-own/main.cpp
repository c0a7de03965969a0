// SPDX-License-Identifier: MIT
// Tuning tables: writing one, replacing it while the process runs, and what a damaged file does.
//
//   tables_of_your_own FOLDER      FOLDER is created; the table is written there
//
// `switchyard tune` writes tables from measurements. This one is invented, so that its effect is visible.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using sy::operators::softmax;

/// A table for this machine: at 64 rows of 1024 columns, the portable variant took 20 us.
std::string make_table(const sy::device_properties& device) {
  const nlohmann::json table{
      {"schema", "switchyard.table/1"},
      {"operator", "softmax"},
      {"device", {{"backend", device.backend}, {"arch", device.arch}, {"name", device.name}}},
      {"match", {{"rows", "log"}, {"columns", "log"}}},
      {"envelope", 1.5},
      {"groups",
       {{{"type", {{"dtype", "f32"}}},
         {"axes", {"rows", "columns"}},
         {"rows", {{{"at", {64, 1024}}, {"times_us", {{"baseline_s4", 20.0}}}}}}}}}};
  return table.dump(1);
}

/// Replaces a file the safe way: written beside it, then renamed over it.
void replace_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path fresh = path.string() + ".new";
  std::ofstream{fresh} << text;
  std::filesystem::rename(fresh, path);
}

class shapes {
 public:
  explicit shapes(sy::catalog& catalog) : run_{catalog, sy::device::host()} {}

  /// Prints the choice for a few shapes.
  void print() {
    for (const std::int64_t rows : {64, 128, 4096}) {
      const sy::tensor x{data_.data(), sy::dtype::f32, {rows, 1024}};  // nothing is launched
      const softmax::arguments call = softmax::call(x, x);
      const sy::explanation why = run_.explain(call);
      std::printf("  %4lld rows: %s, %s\n", static_cast<long long>(rows), why.variant.c_str(),
                  std::string{to_string(why.chosen.why)}.c_str());
    }
  }

 private:
  std::vector<float> data_ = std::vector<float>(1024);
  sy::dispatcher<softmax> run_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tables_of_your_own FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const std::filesystem::path path = folder / "tables/softmax/this-cpu.json";
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);

  sy::catalog catalog{{.roots = {folder.string()}, .tables = {}}};
  shapes calls{catalog};
  std::printf("no table:\n");
  calls.print();

  const std::string table = make_table(sy::device::host().properties());
  replace_file(path, table);
  catalog.reload();  // or catalog.watch(), once, which reloads by itself
  std::printf("a table with one row, at 64 rows:\n");
  calls.print();

  replace_file(path, table.substr(0, table.find("times_us")));
  for (const std::string& message : catalog.reload().refused) std::printf("%s\n", message.c_str());
  std::printf("a file that was cut off:\n");
  calls.print();

  std::filesystem::remove(path);
  catalog.reload();
  std::printf("the file removed:\n");
  calls.print();
}
