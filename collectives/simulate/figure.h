// A figure: lines over a logarithmic axis of sizes, as SVG. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme::simulate {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (bytes, value), both above 0, ascending in bytes.
};

// Both axes are logarithmic. The text is a whole SVG document.
std::string draw_figure(const std::string& title, const std::string& value_label, const std::vector<Series>& series);

}  // namespace trireme::simulate
