#include "collectives/simulate/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/core.h>
#include <trireme/base/units.h>

namespace trireme::simulate {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 460;
constexpr double kLeft = 70;
constexpr double kRight = 590;
constexpr double kTop = 40;
constexpr double kBottom = 410;
// Distinguishable with every kind of colour vision (Okabe, Ito 2008).
constexpr std::array<const char*, 8> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000", "#999999"};

struct Axis {
  double low = 0;  // Logarithms of the ends.
  double high = 1;
  double from = 0;  // Where they lie.
  double to = 1;
  double at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     colour);
}

void set_range(const std::vector<Series>& series, Axis& x, Axis& y) {
  double x_low = 1e300, x_high = 0, y_low = 1e300, y_high = 0;
  for (const Series& one : series) {
    for (const auto& [bytes, value] : one.points) {
      x_low = std::min(x_low, bytes);
      x_high = std::max(x_high, bytes);
      y_low = std::min(y_low, value);
      y_high = std::max(y_high, value);
    }
  }
  if (x_high <= 0) x_low = y_low = 1, x_high = y_high = 10;
  x.low = std::log10(x_low);
  x.high = std::max(std::log10(x_high), x.low + 0.3);
  y.low = std::floor(std::log10(y_low));
  y.high = std::max(std::ceil(std::log10(y_high)), y.low + 1);
}

std::string draw_axes(const Axis& x, const Axis& y, const std::string& value_label) {
  std::string svg;
  for (double exponent = y.low; exponent <= y.high; ++exponent) {
    const double value = std::pow(10, exponent);
    svg += line(kLeft, y.at(value), kRight, y.at(value), "#dddddd");
    svg += text_at(kLeft - 6, y.at(value) + 4, "end", fmt::format("{:g}", value));
  }
  for (double bytes = std::exp2(std::ceil(x.low / std::log10(2.0))); std::log10(bytes) <= x.high + 1e-9; bytes *= 16) {
    svg += line(x.at(bytes), kTop, x.at(bytes), kBottom, "#dddddd");
    svg += text_at(x.at(bytes), kBottom + 18, "middle", format_bytes(static_cast<std::uint64_t>(bytes)));
  }
  svg += line(kLeft, kBottom, kRight, kBottom, "black") + line(kLeft, kTop, kLeft, kBottom, "black");
  svg += text_at((kLeft + kRight) / 2, kBottom + 38, "middle", "size");
  return svg + text_at(kLeft, kTop - 8, "start", value_label);
}

}  // namespace

std::string draw_figure(const std::string& title, const std::string& value_label, const std::vector<Series>& series) {
  Axis x{0, 1, kLeft, kRight};
  Axis y{0, 1, kBottom, kTop};
  set_range(series, x, y);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += text_at((kLeft + kRight) / 2, 18, "middle", title) + draw_axes(x, y, value_label);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string points;
    for (const auto& [bytes, value] : series[i].points)
      points += fmt::format("{:.1f},{:.1f} ", x.at(bytes), y.at(value));
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
    const double row = kTop + 20 * static_cast<double>(i) + 10;
    svg += line(kRight + 12, row, kRight + 32, row, colour) + text_at(kRight + 38, row + 4, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace trireme::simulate
