// A line plot as a piece of SVG: enough for loss and throughput against steps.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotSeries {
  std::string name;
  std::string css_class;  // "train", "held-out", ...: the page's style gives the colour.
  std::vector<PlotPoint> points;
  bool markers = false;  // Draws dots; lines otherwise.
};

struct PlotMark {
  double x = 0;
  std::string css_class;  // "checkpoint", "kill", "resume"
  std::string label;      // Shown when pointed at, and read by screen readers.
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<PlotSeries> series;
  std::vector<PlotMark> marks;
  bool y_from_zero = false;
};

// Text as it may stand in HTML and SVG.
std::string escape_html(const std::string& text);
// At most `count` + 1 round values covering [low, high]. REQUIRES: low <= high, finite.
std::vector<double> axis_ticks(double low, double high, int count);
// One <svg> element, 860 × 300 units, scaling with the page. Points that are not finite
// are left out; a plot without points says so.
std::string plot_to_svg(const Plot& plot);

}  // namespace trireme
