// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <switchyard/files/known_files.hpp>

#include "../temporary.hpp"

namespace knowing {

using namespace switchyard;

/// Files whose content is their text. "bad" is refused, "none" is of another operator, and "later" cannot be
/// read for now.
struct library {
  known_files<std::string> files;
  reload_report report;
  std::vector<std::string> warned;
  std::vector<std::string> read;  // paths, and those that were known with a plus

  std::vector<std::string> refresh(const file_listing& found) {
    report = {};
    warned.clear();
    read.clear();
    std::vector<std::string> out;
    for (const auto& file : files.refresh(found, reader{*this}, report)) out.push_back(*file);
    return out;
  }

  struct reader {
    library& in;

    std::shared_ptr<const std::string> read(const std::string& path,
                                            const std::shared_ptr<const std::string>& known) const {
      in.read.push_back((known != nullptr ? "+" : "") + path);
      if (known != nullptr) return known;
      const std::string text = slurp(path);
      if (text == "bad") throw file_error{error_code::malformed_json, path + ": is bad"};
      if (text == "later") throw file_error{error_code::unreadable_file, path + ": cannot be read", EMFILE};
      if (text == "none") return nullptr;
      return std::make_shared<const std::string>(text);
    }
    void warn(const std::string& text) const { in.warned.push_back(text); }
  };
};

using texts = std::vector<std::string>;

TEST_CASE("files are read when they are new or changed, and served in search order") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "one");
  const std::string b = folder.write("b", "two");
  const std::string c = folder.write("c", "none");
  library all;
  CHECK(all.refresh({{b, a, c, b}, {}}) == texts{"two", "one"});  // a second mention counts for nothing
  CHECK(all.read == texts{b, a, c});
  CHECK(all.report.changed == texts{b, a, c});
  CHECK(all.refresh({{a, b, c}, {}}) == texts{"one", "two"});
  CHECK(all.read == texts{"+" + a, "+" + b});  // whoever reads may find that it is not enough
  CHECK(all.report.changed.empty());
  folder.write("b", "three");
  folder.write("c", "four");
  CHECK(all.refresh({{a, b, c}, {}}) == texts{"one", "three", "four"});
  CHECK(all.read == texts{"+" + a, b, c});
  CHECK(all.report.changed == texts{b, c});
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  CHECK(all.report.changed == texts{b, c});
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  CHECK(all.report.changed.empty());
  CHECK(all.warned.empty());
  CHECK(all.refresh({{a, b}, {}}) == texts{"one", "three"});
  CHECK(all.read == texts{"+" + a, b});
}

TEST_CASE("a version that is refused leaves the one before in use, and is refused once") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "one");
  const std::string b = folder.write("b", "bad");
  library all;
  CHECK(all.refresh({{a, b}, {}}) == texts{"one"});
  CHECK(all.report.refused.size() == 1);
  CHECK_THAT(all.report.refused.at(0), has_text(b + ": is bad"));
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("b: is bad (the file is not used)"));
  CHECK(all.report.changed == texts{a});
  folder.write("a", "bad");
  CHECK(all.refresh({{a, b}, {}}) == texts{"one"});
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("a: is bad (keeping the previously loaded version)"));
  CHECK(all.report.changed.empty());
  CHECK(all.refresh({{a, b}, {}}) == texts{"one"});
  CHECK(all.read.empty());
  CHECK(all.warned.empty());
  CHECK(all.report.refused.empty());
  folder.write("a", "two");
  CHECK(all.refresh({{a, b}, {}}) == texts{"two"});
  CHECK(all.report.changed == texts{a});
}

TEST_CASE("what becomes of a file of another operator is that operator's to say") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "none");
  library all;
  CHECK(all.refresh({{a}, {}}).empty());
  folder.write("a", "bad");
  CHECK(all.refresh({{a}, {}}).empty());
  CHECK(all.warned.empty());
  CHECK(all.report.refused.empty());
  folder.write("a", "one");
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  folder.write("a", "bad");
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  CHECK(all.warned.size() == 1);
}

TEST_CASE("a file that cannot be read now is read by the next reload, and said once") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "later");
  library all;
  CHECK(all.refresh({{a}, {}}).empty());
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text("[switchyard.101] " + a + ": cannot be read: ") &&
                                has_text("What was loaded from there before stays in use"));
  CHECK(all.report.refused.empty());
  CHECK(all.refresh({{a}, {}}).empty());
  CHECK(all.read == texts{a});
  CHECK(all.warned.empty());
  folder.write("a", "one");
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  folder.write("a", "later");
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  CHECK(all.warned.size() == 1);  // it was well in between
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  CHECK(all.warned.empty());
}

TEST_CASE("a file behind an obstacle stays in use and in its place, until it is known to be gone") {
  const temporary_folder folder;
  std::filesystem::create_directory(folder / "in");
  const std::string a = folder.write("a", "one");
  const std::string b = folder.write("in/b", "two");
  const std::string c = folder.write("c", "three");
  library all;
  CHECK(all.refresh({{a, b, c}, {}}) == texts{"one", "two", "three"});
  const std::error_code denied = std::make_error_code(std::errc::permission_denied);
  const file_listing without{{a, c}, {{folder / "in", denied}}};
  CHECK(all.refresh(without) == texts{"one", "two", "three"});
  CHECK(all.read == texts{"+" + a, "+" + c});
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text(folder / "in: cannot be read: " + denied.message()));
  CHECK(all.report.changed.empty());
  CHECK(all.refresh(without) == texts{"one", "two", "three"});
  CHECK(all.warned.empty());
  // A file that is new meanwhile comes behind those that are known; one that goes is gone.
  const std::string d = folder.write("d", "four");
  CHECK(all.refresh({{d, c}, {{folder / "in", denied}}}) == texts{"two", "three", "four"});
  CHECK(all.report.changed == texts{d, a});
  CHECK(all.refresh({{d, c}, {}}) == texts{"four", "three"});
  CHECK(all.report.changed == texts{b});
  // The obstacle was gone, so it is said again.
  CHECK(all.refresh({{d, c}, {{folder / "in", denied}}}) == texts{"four", "three"});
  CHECK(all.warned.size() == 1);
}

TEST_CASE("a file that is named and goes is forgotten, and one that was never there is asked for once") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "one");
  const std::string gone = folder / "gone";
  library all;
  CHECK(all.refresh({{a, gone}, {}}) == texts{"one", ""});
  std::filesystem::remove(a);
  CHECK(all.refresh({{a}, {}}).empty());
  CHECK(all.read.empty());
  CHECK(all.report.changed == texts{a, gone});
  CHECK(all.refresh({{a}, {}}).empty());
  CHECK(all.report.changed.empty());
  CHECK(all.read.empty());
  folder.write("a", "two");
  CHECK(all.refresh({{a}, {}}) == texts{"two"});
  CHECK(all.warned.empty());
}

TEST_CASE("a link in a knot is an obstacle, and a file under a file is gone") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "one");
  library all;
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  std::filesystem::remove(a);
  std::filesystem::create_symlink("a", a);
  CHECK(all.refresh({{a}, {}}) == texts{"one"});
  REQUIRE(all.warned.size() == 1);
  CHECK_THAT(all.warned[0], has_text(a + ": cannot be read: "));
  CHECK(file_signature{a}.obstacle() == ELOOP);
  CHECK_FALSE(file_signature{a}.is_gone());
  std::filesystem::remove(a);
  CHECK(file_signature{a}.is_gone());
  CHECK(file_signature{a}.obstacle() == 0);
  const std::string file = folder.write("file", "x");
  CHECK(file_signature{file + "/x"}.is_gone());
  CHECK(file_signature{file + "/x"}.obstacle() == 0);
  CHECK_FALSE(file_signature{file}.is_gone());
  CHECK(file_signature{file}.obstacle() == 0);
}

TEST_CASE("versions of a file differ by size, by inode and by time") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "one");
  const file_signature first{a};
  CHECK(file_signature{a} == first);
  CHECK_FALSE(first == file_signature{});
  CHECK_FALSE(first == file_signature{folder.write("b", "one")});
  CHECK_FALSE(file_signature{folder / "gone"} == file_signature{});
  const auto written_at = [&](time_t seconds, long nanoseconds) {
    const timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};
    REQUIRE(::utimensat(AT_FDCWD, a.c_str(), times, 0) == 0);
    return file_signature{a};
  };
  CHECK_FALSE(written_at(100, 1) == written_at(100, 2));
  CHECK_FALSE(written_at(100, 1) == written_at(101, 1));
  folder.write("a", "longer");
  CHECK_FALSE(file_signature{a} == first);
}

}  // namespace knowing
