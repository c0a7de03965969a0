// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include <switchyard/files/search_path.hpp>

#include "../temporary.hpp"

namespace searching {

using namespace switchyard;

/// A file of a root, whose folders are made.
std::string put(const temporary_folder& root, const std::string& name) {
  std::filesystem::create_directories(std::filesystem::path{root / name}.parent_path());
  return root.write(name, "{}");
}

std::vector<std::string> places_of(const file_listing& found) {
  std::vector<std::string> out;
  for (const file_listing::obstacle& obstacle : found.obstacles) out.push_back(obstacle.path);
  return out;
}

TEST_CASE("a program finds files beside its own folder, then in the system's") {
  const std::vector<std::string> roots = switchyard::installed_roots();
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(roots == std::vector<std::string>{(program.parent_path().parent_path() / "share/switchyard").string(),
                                          "/usr/local/share/switchyard", "/usr/share/switchyard"});
}

TEST_CASE("the installation's folder may be told by the way from one of its headers") {
  const std::vector<std::string> roots = switchyard::installed_roots(
      "/opt/it/include/switchyard/files/data_folder.hpp/../../../../share/switchyard");
  CHECK(roots.at(1) == "/opt/it/share/switchyard");
}

TEST_CASE("a root that is named twice, in whatever way, counts where it is named first") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory(folder / "b");
  std::filesystem::create_directory_symlink(folder / "a", folder / "link");
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  std::vector<std::string> roots{folder / "b",      folder / "a",      folder / "link",
                                 folder / "b/../a", folder / "gone",   folder / "loop/x",
                                 folder / "gone",   folder / "loop/x", folder / "loop/y"};
  switchyard::drop_repeated(roots);
  CHECK(roots == std::vector<std::string>{folder / "b", folder / "a", folder / "gone", folder / "loop/x",
                                          folder / "loop/y"});
}

TEST_CASE("manifests and tables are listed root by root, each folder's by name") {
  const temporary_folder one;
  const temporary_folder two;
  const std::string b = put(one, "kernels/scale/cuda-sm_90a/b.json");
  const std::string a = put(one, "kernels/scale/cuda-sm_90a/a.json");
  const std::string c = put(one, "kernels/scale/cuda-sm_80/z.json");
  const std::string d = put(two, "kernels/scale/host-any/a.json");
  put(one, "kernels/scale/cuda-sm_90a/a.cubin");
  put(one, "kernels/scale/.hidden/a.json");
  put(one, "kernels/scale/stray.json");
  put(one, "kernels/other/host-any/a.json");
  put(one, "kernels/.git/host-any/a.json");
  put(one, "kernels/file");
  const std::string t = put(one, "tables/scale/card.json");
  const std::string u = put(two, "tables/scale/card.json");
  put(one, "tables/scale/card.json.bak");
  put(one, "tables/scale/deeper/card.json");
  const search_path searched{{one.path(), one / "gone", two.path()}, {}};
  const file_listing manifests = list_manifests(searched, "scale");
  CHECK(manifests.files == std::vector<std::string>{c, a, b, d});
  CHECK(manifests.obstacles.empty());
  CHECK(list_tables(searched, "scale").files == std::vector<std::string>{t, u});
  CHECK(list_tables(searched, "gone").files.empty());
  CHECK(list_tables(searched, "gone").obstacles.empty());
  CHECK(list_operators(searched) == std::vector<std::string>{"other", "scale"});
}

TEST_CASE("overlays are files, and folders with an operator's own folder in them") {
  const temporary_folder folder;
  const std::string file = put(folder, "one.json");
  const std::string b = put(folder, "many/b.json");
  const std::string a = put(folder, "many/a.json");
  const std::string own = put(folder, "many/scale/c.json");
  put(folder, "many/rotary/d.json");
  const search_path searched{{}, {folder / "many", file, folder / "gone.json"}};
  const file_listing found = list_overlays(searched, "scale");
  // One that is not there is listed: whoever reads it says so.
  CHECK(found.files == std::vector<std::string>{a, b, own, file, folder / "gone.json"});
  CHECK(found.obstacles.empty());
}

TEST_CASE("a folder or link that cannot be told is an obstacle, and what is absent is none") {
  const temporary_folder folder;
  put(folder, "kernels/scale/host-any/a.json");
  std::filesystem::create_symlink(folder / "gone", folder / "kernels/scale/dangling");
  const search_path searched{{folder.path()}, {}};
  CHECK(list_manifests(searched, "scale").obstacles.empty());
  CHECK(list_manifests({{folder / "kernels/scale/host-any/a.json"}, {}}, "scale").obstacles.empty());
  std::filesystem::create_symlink("loop", folder / "kernels/scale/loop");
  const file_listing found = list_manifests(searched, "scale");
  CHECK(found.files.size() == 1);
  CHECK(places_of(found) == std::vector<std::string>{folder / "kernels/scale/loop"});
  CHECK(found.obstacles.at(0).problem == std::errc::too_many_symbolic_link_levels);
  // A root that is such a link, for manifests, tables and overlays.
  std::filesystem::create_symlink("knot", folder / "knot");
  const search_path knot{{folder / "knot"}, {folder / "knot", folder / "gone"}};
  CHECK(places_of(list_manifests(knot, "scale")) == std::vector<std::string>{folder / "knot"});
  CHECK(places_of(list_tables(knot, "scale")) == std::vector<std::string>{folder / "knot"});
  CHECK(places_of(list_overlays(knot, "scale")) == std::vector<std::string>{folder / "knot"});
  CHECK(list_overlays(knot, "scale").files == std::vector<std::string>{folder / "gone"});
}

TEST_CASE("the obstacle is the outermost folder that cannot be entered, whichever operator is looked for") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "root");
  std::filesystem::create_symlink("kernels", folder / "root/kernels");
  std::filesystem::create_symlink("scale", folder / "root/scale");
  const search_path searched{{folder / "root"}, {}};
  for (const char* name : {"scale", "rotary"}) {
    const file_listing found = list_manifests(searched, name);
    CHECK(places_of(found) == std::vector<std::string>{folder / "root/kernels"});
    CHECK(found.may_have(folder / "root/kernels/scale/host-any/a.json"));
    CHECK_FALSE(found.may_have(folder / "root/tables/scale/a.json"));
  }
  // Nothing is in the way of what is absent, and a folder that is there is its own obstacle.
  CHECK(switchyard::detail::find_obstacle_on(folder / "gone/deeper") == folder / "gone/deeper");
  CHECK(switchyard::detail::find_obstacle_on(folder / "root/scale") == folder / "root/scale");
  CHECK(switchyard::detail::find_obstacle_on(folder / "root/scale/x") == folder / "root/scale");
  CHECK(switchyard::detail::find_obstacle_on("plain") == "plain");
}

TEST_CASE("an obstacle may hide itself and what is under it, and nothing beside it") {
  switchyard::file_listing found;
  CHECK_FALSE(found.may_have("/a/b/c.json"));
  found.obstacles = {{"/x", {}}, {"/a/b", {}}};
  CHECK(found.may_have("/a/b"));
  CHECK(found.may_have("/a/b/c.json"));
  CHECK(found.may_have("/a/b/c/d.json"));
  CHECK(found.may_have("/x/c.json"));
  CHECK_FALSE(found.may_have("/a/bc"));
  CHECK_FALSE(found.may_have("/a/bc/d.json"));
  CHECK_FALSE(found.may_have("/a/c.json"));
  CHECK_FALSE(found.may_have("/a"));
  CHECK_FALSE(found.may_have("/y/a/b/c.json"));
}

}  // namespace searching
