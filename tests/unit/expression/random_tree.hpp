// SPDX-License-Identifier: MIT
// Random expressions over the axes of sample_names, with their values as 128 bits give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <switchyard/expression/arithmetic.hpp>

#include "sample_names.hpp"

namespace random_trees {

using namespace sample_names;

__extension__ using wide = __int128;

struct outcome {
  std::int64_t value = 0;
  fault why = fault::none;
};

struct tree {
  std::string op;  // an operator's or function's name; "" for a leaf
  std::string leaf;
  std::int64_t leaf_value = 0;
  std::vector<tree> parts;

  [[nodiscard]] std::string text() const {
    if (op.empty()) return leaf;
    if (op == "?") return "(" + parts[0].text() + " ? " + parts[1].text() + " : " + parts[2].text() + ")";
    if (op == "neg") return "(-" + parts[0].text() + ")";
    if (op == "!") return "(!" + parts[0].text() + ")";
    if (op[0] >= 'a' && op[0] <= 'z') {
      return op + "(" + parts[0].text() + (parts.size() > 1 ? ", " + parts[1].text() : "") + ")";
    }
    return "(" + parts[0].text() + " " + op + " " + parts[1].text() + ")";
  }

  [[nodiscard]] outcome evaluate() const {
    if (op.empty()) return {leaf_value, fault::none};
    const outcome first = parts[0].evaluate();
    if (first.why != fault::none) return first;
    if (op == "?") return parts[first.value != 0 ? 1 : 2].evaluate();
    if (op == "&&" || op == "||") {
      if ((first.value != 0) == (op == "||")) return {first.value != 0, fault::none};
      const outcome second = parts[1].evaluate();
      return second.why != fault::none ? second : outcome{second.value != 0, fault::none};
    }
    const wide a = first.value;
    const auto fit = [](wide exact) {
      return exact < lowest || exact > highest ? outcome{0, fault::overflow}
                                               : outcome{static_cast<std::int64_t>(exact), fault::none};
    };
    if (op == "neg") return fit(-a);
    if (op == "!") return {a == 0, fault::none};
    if (op == "next_pow2") {
      wide power = 1;
      while (power < a) power *= 2;
      return fit(power);
    }
    if (op == "sqrt") {
      if (a < 0) return {0, fault::out_of_range};
      wide root = 0;
      for (wide step = wide{1} << 32; step != 0; step /= 2) {
        if ((root + step) * (root + step) <= a) root += step;
      }
      return fit(root);
    }
    const outcome second = parts[1].evaluate();
    if (second.why != fault::none) return second;
    const wide b = second.value;
    if (op == "+") return fit(a + b);
    if (op == "-") return fit(a - b);
    if (op == "*") return fit(a * b);
    if (op == "<") return {a < b, fault::none};
    if (op == "<=") return {a <= b, fault::none};
    if (op == ">") return {a > b, fault::none};
    if (op == ">=") return {a >= b, fault::none};
    if (op == "==") return {a == b, fault::none};
    if (op == "!=") return {a != b, fault::none};
    if (op == "min") return fit(a < b ? a : b);
    if (op == "max") return fit(a < b ? b : a);
    if (op == "<<") {
      if (b < 0 || b > 62) return {0, fault::out_of_range};
      return fit(a * (wide{1} << static_cast<int>(b)));
    }
    if (op == ">>") {
      if (b < 0 || b > 63) return {0, fault::out_of_range};
      wide quotient = a / (wide{1} << static_cast<int>(b));
      if (a < 0 && a % (wide{1} << static_cast<int>(b)) != 0) --quotient;
      return fit(quotient);
    }
    if (b == 0) return {0, fault::division_by_zero};
    if (op == "/") return fit(a / b);
    if (op == "%") return a == lowest && b == -1 ? outcome{0, fault::overflow} : fit(a % b);
    if (a < 0 || b < 0) return {0, fault::out_of_range};
    const wide blocks = (a + b - 1) / b;
    return fit(op == "ceil_div" ? blocks : blocks * b);
  }
};

inline tree random_tree(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> binary{"+",   "-",        "*",        "/",  "%",  "<<", ">>", "<",
                                               "<=",  ">",        ">=",       "==", "!=", "&&", "||", "min",
                                               "max", "ceil_div", "round_up", "&&", "||", "+",  "*"};
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  tree out;
  if (depth == 0 || below(6) == 0) {
    if (below(2) == 0) {
      const std::size_t axis = below(axis_values.size());
      out.leaf = std::string(1, static_cast<char>('a' + axis));
      out.leaf_value = axis_values[axis];
      return out;
    }
    static const std::vector<std::int64_t> constants{0, 1, 2, 3, 7, 31, 62, 63, 64, 4096, 1LL << 40, highest};
    out.leaf_value = constants[below(constants.size())];
    out.leaf = std::to_string(out.leaf_value);
    return out;
  }
  const std::size_t kind = below(10);
  if (kind == 0) {
    out.op = below(2) == 0 ? "neg" : "!";
  } else if (kind == 1) {
    out.op = below(2) == 0 ? "next_pow2" : "sqrt";
  } else if (kind <= 3) {
    out.op = "?";
  } else {
    out.op = binary[below(binary.size())];
  }
  const std::size_t count = out.op == "?" ? 3 : kind <= 1 ? 1 : 2;
  for (std::size_t i = 0; i < count; ++i) out.parts.push_back(random_tree(random, depth - 1));
  return out;
}

}  // namespace random_trees
