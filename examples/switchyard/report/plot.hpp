// SPDX-License-Identifier: MIT
// Plots for `report`: HTML and SVG text, without scripts or network resources.
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace tool::plot {

[[nodiscard]] inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

template <class... Values>
[[nodiscard]] std::string format(const char* pattern, Values... values) {
  const int length = std::snprintf(nullptr, 0, pattern, values...);
  std::string out(static_cast<std::size_t>(length > 0 ? length : 0), '\0');
  std::snprintf(out.data(), out.size() + 1, pattern, values...);
  return out;
}

/// Colours that remain distinguishable with most kinds of colour blindness (after Okabe and Ito), then greys.
[[nodiscard]] inline std::string_view colour(std::size_t index) noexcept {
  constexpr std::array<std::string_view, 12> colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                     "#56b4e9", "#d55e00", "#b2a900", "#7b5ea7",
                                                     "#8c564b", "#1b7837", "#bb4444", "#6b6b6b"};
  return index < colours.size() ? colours[index] : std::string_view{"#aaaaaa"};
}

/// Room for a text of the pictures' font; the widths of its characters differ.
[[nodiscard]] inline double width_of(const std::string& text) {
  return 7.0 * static_cast<double>(text.size());
}

/// An SVG picture that grows to what is drawn.
class picture {
 public:
  picture(double width, double height, std::string_view kind) : width_{width}, height_{height}, kind_{kind} {}

  void rectangle(double x, double y, double width, double height, std::string_view fill, double opacity,
                 const std::string& title = {}, std::string_view kind = {}) {
    body_ += format(R"(<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill=")", x, y, width, height) +
             std::string{fill} + format(R"(" fill-opacity="%.2f")", opacity) + class_of(kind) +
             close("rect", title);
  }
  void circle(double x, double y, double radius, std::string_view fill, const std::string& title = {}) {
    body_ += format(R"(<circle cx="%.1f" cy="%.1f" r="%.1f" fill=")", x, y, radius) + std::string{fill} +
             R"(" fill-opacity="0.75")" + close("circle", title);
  }
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, bool dashed = false) {
    body_ += format(R"(<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke=")", x1, y1, x2, y2) +
             std::string{stroke} + (dashed ? R"(" stroke-dasharray="4 3"/>)" : R"("/>)");
  }
  /// A line behind what is plotted; the page's style has its colour.
  void grid_line(double x1, double y1, double x2, double y2) {
    body_ += format(R"(<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", x1, y1, x2, y2);
  }
  /// `anchor`: start, middle or end.
  void text(double x, double y, const std::string& content, std::string_view anchor = "start",
            double turned = 0) {
    body_ +=
        format(R"(<text x="%.1f" y="%.1f" text-anchor=")", x, y) + std::string{anchor} + "\"" +
        (turned != 0 ? format(R"-( transform="rotate(%.0f %.1f %.1f)")-", turned, x, y) : std::string{}) +
        ">" + escaped(content) + "</text>";
  }

  [[nodiscard]] std::string finish() const {
    return "<svg class=\"" + kind_ + "\" xmlns=\"http://www.w3.org/2000/svg\" " +
           format(R"(viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">)", width_, height_, width_,
                  height_) +
           body_ + "</svg>\n";
  }

 private:
  [[nodiscard]] static std::string class_of(std::string_view kind) {
    return kind.empty() ? std::string{} : " class=\"" + std::string{kind} + "\"";
  }
  [[nodiscard]] static std::string close(const char* element, const std::string& title) {
    return title.empty() ? "/>" : "><title>" + escaped(title) + "</title></" + element + ">";
  }

  double width_;
  double height_;
  std::string kind_;
  std::string body_;
};

}  // namespace tool::plot
