// SPDX-License-Identifier: MIT
#include <array>
#include <catch.hpp>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>

#include "../comma_locale.hpp"

using namespace switchyard;

TEST_CASE("edit distance counts insertions, deletions and substitutions") {
  CHECK(text::edit_distance("", "") == 0);
  CHECK(text::edit_distance("", "abc") == 3);
  CHECK(text::edit_distance("abc", "") == 3);
  CHECK(text::edit_distance("kitten", "sitting") == 3);
  CHECK(text::edit_distance("seqlen", "seqlen_q") == 2);
  CHECK(text::edit_distance("ab", "ba") == 2);
}

TEST_CASE("a suggestion names the nearest known name, and none that is far") {
  const std::array<std::string_view, 3> known{"seqlen_q", "seqlen_k", "heads"};
  CHECK(text::suggestion("seqlen_qq", known) == "; did you mean 'seqlen_q'?");
  CHECK(text::suggestion("haeds", known).empty());
  CHECK(text::suggestion("head", known) == "; did you mean 'heads'?");
  CHECK(text::suggestion("rotary_dim", known).empty());
  CHECK(text::suggestion("x", std::vector<std::string>{}).empty());
}

TEST_CASE("no time is spent on suggestions for absurdly long names") {
  const std::array<std::string_view, 2> known{"seqlen_q", "heads"};
  CHECK(text::suggestion(std::string(std::size_t{1} << 28U, 'h'), known).empty());
}

TEST_CASE("a joined list says how many it leaves out") {
  const std::vector<std::string> names{"a", "b", "c"};
  CHECK(text::join(names) == "a, b, c");
  CHECK(text::join(names, 2) == "a, b, and 1 more");
  CHECK(text::join(std::vector<std::string>{}).empty());
}

TEST_CASE("what a message takes from a file is short, of whole characters and without zeros") {
  CHECK(text::shortened("plain", 10) == "plain");
  CHECK(text::shortened("plain", 5) == "plain");
  CHECK(text::shortened("plain", 4) == "plai...");
  CHECK(text::shortened("ab\xc3\xa9"
                        "cd",
                        3) == "ab...");
  CHECK(text::shortened("ab\xc3\xa9"
                        "cd",
                        4) == "ab\xc3\xa9...");
  CHECK(text::shortened(std::string_view{"a\0b\nc\x7f", 6}, 10) == "a?b?c?");
}

TEST_CASE("numbers have three significant digits or more") {
  CHECK(text::number(0) == "0");
  CHECK(text::number(0.01234) == "0.0123");
  CHECK(text::number(1.5) == "1.5");
  CHECK(text::number(41.23) == "41.2");
  CHECK(text::number(99.95) == "100.0");
  CHECK(text::number(12345.4) == "12345");
  CHECK(text::number(-41.23) == "-41.2");
}

TEST_CASE("quoted JSON escapes what JSON does not allow in strings") {
  CHECK(text::quote_json("plain") == "\"plain\"");
  CHECK(text::quote_json("a\"b\\c") == R"("a\"b\\c")");
  CHECK(text::quote_json(std::string_view{"\0\n\x1f", 3}) == R"("\u0000\u000a\u001f")");
  CHECK(text::quote_json("gr\xc3\xbc\xc3\x9f"
                         "e \xf0\x9f\x9a\x82") ==
        "\"gr\xc3\xbc\xc3\x9f"
        "e \xf0\x9f\x9a\x82\"");
}

TEST_CASE("quoted JSON is UTF-8 whatever it is given") {
  const std::string replacement = "\xef\xbf\xbd";
  CHECK(text::quote_json("a\xff"
                         "b") == "\"a" + replacement + "b\"");
  CHECK(text::quote_json("cut \xc3") == "\"cut " + replacement + "\"");
  CHECK(text::quote_json("\xe2\x82") == "\"" + replacement + replacement + "\"");
  CHECK(text::quote_json("\xc0\x80") == "\"" + replacement + replacement + "\"");  // overlong
  CHECK(text::quote_json("\xed\xa0\x80") ==
        "\"" + replacement + replacement + replacement + "\"");  // surrogate
}

TEST_CASE("numbers in messages have a point in every locale") {
  const comma_locale locale;
  if (!locale.in_force()) return;
  CHECK(text::number(41.23) == "41.2");
  CHECK(text::number(0.5) == "0.5");
}

TEST_CASE("text of any origin becomes one line that a terminal does not obey") {
  CHECK(text::printable("plain, gr\xc3\xbcn and \xf0\x9f\x9a\x82") ==
        "plain, gr\xc3\xbcn and \xf0\x9f\x9a\x82");
  CHECK(text::printable("") == "");
  CHECK(text::printable("a\nswitchyard: forged\r\t") == "a\\u000aswitchyard: forged\\u000d\\u0009");
  CHECK(text::printable("\x1b[31m red \x7f") == "\\u001b[31m red \\u007f");
  CHECK(text::printable("\xc2\x9b"
                        "31m") == "\\u009b31m");
  CHECK(text::printable("\x9b"
                        "31m \xff cut \xc3") == "\\x9b31m \\xff cut \\xc3");
  CHECK(text::printable(std::string{"a\0b", 3}) == "a\\u0000b");
  CHECK(text::printable(text::printable("a\n\x9b")) == text::printable("a\n\x9b"));
  CHECK(text::quote_json("\xc2\x9b \x7f") == "\"\\u009b \\u007f\"");
  CHECK(text::shortened("a\xc2\x9b"
                        "b\nc",
                        99) == "a?b?c");
  CHECK(text::find_control("none, \xc3\xbc \xc2\xa0").empty());
  CHECK(text::find_control("a\tb") == "U+0009");
  CHECK(text::find_control("\xc2\x85") == "U+0085");
}
