#include "examples/report/plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace trireme {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 300;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 44;

struct Axes {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  double x(double value) const { return kLeft + (value - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return kHeight - kBottom - (value - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

bool is_drawable(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

// The smallest axes that hold every drawable point; false when there is none.
bool fit_axes(const Plot& plot, Axes& axes) {
  bool any = false;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (!is_drawable(point)) continue;
      if (!any) axes = {point.x, point.x, point.y, point.y};
      any = true;
      axes = {std::min(axes.x_low, point.x), std::max(axes.x_high, point.x), std::min(axes.y_low, point.y),
              std::max(axes.y_high, point.y)};
    }
  }
  if (plot.y_from_zero) axes.y_low = std::min(axes.y_low, 0.0);
  if (axes.x_high <= axes.x_low) axes.x_high = axes.x_low + 1;
  if (axes.y_high <= axes.y_low) axes.y_high = axes.y_low + 1;
  return any;
}

std::string tick_text(double value) {
  if (std::abs(value) >= 10000) return fmt::format("{:g}k", value / 1000);
  return fmt::format("{:g}", value);
}

void append_grid(const Plot& plot, const Axes& axes, std::string& svg) {
  for (double value : axis_ticks(axes.y_low, axes.y_high, 5)) {
    svg += fmt::format("<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/>", kLeft, kWidth - kRight,
                       axes.y(value), axes.y(value));
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>", kLeft - 6, axes.y(value) + 4,
                       tick_text(value));
  }
  for (double value : axis_ticks(axes.x_low, axes.x_high, 8)) {
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>", axes.x(value), kHeight - kBottom + 16,
                       tick_text(value));
  }
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>", (kLeft + kWidth - kRight) / 2, kHeight - 8,
                     escape_html(plot.x_label));
  svg +=
      fmt::format("<text class='title' x='{}' y='16'>{}</text>", kLeft, escape_html(plot.title + ", " + plot.y_label));
}

void append_marks(const Plot& plot, const Axes& axes, std::string& svg) {
  for (const PlotMark& mark : plot.marks) {
    if (mark.x < axes.x_low || mark.x > axes.x_high) continue;
    svg +=
        fmt::format("<line class='mark {}' x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}'><title>{}</title></line>",
                    mark.css_class, axes.x(mark.x), axes.x(mark.x), kTop, kHeight - kBottom, escape_html(mark.label));
  }
}

void append_series(const PlotSeries& series, const Axes& axes, std::string& svg) {
  if (series.markers) {
    for (const PlotPoint& point : series.points) {
      if (!is_drawable(point)) continue;
      svg +=
          fmt::format("<circle class='{}' cx='{:.1f}' cy='{:.1f}' r='4'><title>{} {:g}: {:.4f}</title></circle>",
                      series.css_class, axes.x(point.x), axes.y(point.y), escape_html(series.name), point.x, point.y);
    }
    return;
  }
  svg += fmt::format("<polyline class='{}' points='", series.css_class);
  for (const PlotPoint& point : series.points) {
    if (is_drawable(point)) svg += fmt::format("{:.1f},{:.1f} ", axes.x(point.x), axes.y(point.y));
  }
  svg += "'/>";
}

void append_legend(const Plot& plot, std::string& svg) {
  double x = kWidth - kRight;
  for (auto series = plot.series.rbegin(); series != plot.series.rend(); ++series) {
    svg += fmt::format("<text class='{0}-label' x='{1:.0f}' y='16' text-anchor='end'>{2}</text>", series->css_class, x,
                       escape_html(series->name));
    x -= 14 + 8 * static_cast<double>(series->name.size());
  }
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::vector<double> axis_ticks(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  if (!(raw > 0)) return {low};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double scaled = raw / power;
  const double step = power * (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double index = std::ceil(low / step - 1e-9); index * step <= high + step * 1e-9; ++index)
    ticks.push_back(index * step);
  return ticks;
}

std::string plot_to_svg(const Plot& plot) {
  std::string svg = fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>", kWidth, kHeight,
                                escape_html(plot.title + ", " + plot.y_label + " against " + plot.x_label));
  Axes axes;
  if (!fit_axes(plot, axes)) {
    return svg + fmt::format("<text x='{}' y='{}'>{}: nothing to show yet</text></svg>", kLeft, kHeight / 2,
                             escape_html(plot.title));
  }
  append_grid(plot, axes, svg);
  append_marks(plot, axes, svg);
  for (const PlotSeries& series : plot.series) append_series(series, axes, svg);
  append_legend(plot, svg);
  return svg + "</svg>";
}

}  // namespace trireme
