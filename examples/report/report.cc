#include "examples/report/report.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <trireme/base/units.h>

#include "examples/report/plot.h"

namespace trireme {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1a1f2b; --paper: #ffffff; --faint: #d7dbe3; --blue: #1f62c4; --orange: #c4581f;
        --green: #2b8a3e; --red: #c92a2a; --violet: #6741d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #14171d; --faint: #333a47; --blue: #74a9ff;
        --orange: #ffa06b; --green: #69db7c; --red: #ff8787; --violet: #b197fc; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; margin: 1rem 0; } svg text { font-size: 12px; fill: var(--ink); } svg .title { font-size: 14px; font-weight: 600; }
.grid { stroke: var(--faint); } polyline { fill: none; stroke-width: 1.6; }
polyline.train { stroke: var(--blue); } text.train-label { fill: var(--blue); }
circle.held-out { fill: var(--orange); } text.held-out-label { fill: var(--orange); }
polyline.throughput { stroke: var(--violet); } text.throughput-label { fill: var(--violet); }
.mark { stroke-width: 1.5; stroke-dasharray: 4 3; } .mark.checkpoint { stroke: var(--green); opacity: .55; }
.mark.kill, .mark.checkpoint_failed { stroke: var(--red); stroke-width: 2.5; } .mark.resume { stroke: var(--orange); stroke-width: 2.5; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--faint); vertical-align: top; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dt { font-weight: 600; } dd { margin: 0; }
)";

bool is_marked(const RunEvent& event) {
  return event.event == "checkpoint" || event.event == "kill" || event.event == "resume" ||
         event.event == "checkpoint_failed";
}

std::vector<PlotMark> marks_of(const RunRecord& record) {
  std::vector<PlotMark> marks;
  for (const RunEvent& event : record.events) {
    if (!is_marked(event)) continue;
    marks.push_back(
        {static_cast<double>(event.step), event.event,
         fmt::format("{} at step {}{}{}", event.event, event.step, event.detail.empty() ? "" : ": ", event.detail)});
  }
  return marks;
}

Plot loss_plot(const RunRecord& record) {
  PlotSeries train{"training", "train", {}, false};
  for (const MetricsLine& line : record.metrics) train.points.push_back({static_cast<double>(line.step), line.loss});
  PlotSeries held_out{"held out", "held-out", {}, true};
  for (const RunEvent& event : record.events) {
    if (event.held_out_loss > 0) held_out.points.push_back({static_cast<double>(event.step), event.held_out_loss});
  }
  return {"Loss", "step", "nats per byte", {train, held_out}, marks_of(record), false};
}

Plot throughput_plot(const RunRecord& record) {
  PlotSeries series{"tokens per second", "throughput", {}, false};
  for (const MetricsLine& line : record.metrics)
    series.points.push_back({static_cast<double>(line.step), line.tokens_per_second});
  return {"Throughput", "step", "tokens per second", {series}, marks_of(record), true};
}

std::string clock_text(std::uint64_t wall_ms) {
  const auto seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec, wall_ms % 1000);
}

std::string summary(const RunRecord& record) {
  std::string html = "<dl>";
  const auto row = [&html](const std::string& name, const std::string& value) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", name, escape_html(value));
  };
  if (!record.metrics.empty()) {
    row("Steps", std::to_string(record.metrics.back().step));
    row("First and last loss", fmt::format("{:.4f}, {:.4f}", record.metrics.front().loss, record.metrics.back().loss));
  }
  const auto count = [&record](const char* name) {
    return std::count_if(record.events.begin(), record.events.end(),
                         [name](const RunEvent& event) { return event.event == name; });
  };
  for (auto event = record.events.rbegin(); event != record.events.rend(); ++event) {
    if (event->held_out_loss <= 0) continue;
    row("Held-out loss", fmt::format("{:.4f} nats per byte at step {}", event->held_out_loss, event->step));
    break;
  }
  row("Checkpoints", std::to_string(count("checkpoint")));
  row("Recoveries", std::to_string(count("resume")));
  if (record.events.size() > 1) {
    row("Wall time", format_duration_ms(record.events.back().wall_ms - record.events.front().wall_ms));
  }
  return html + "</dl>";
}

std::string event_table(const RunRecord& record) {
  if (record.events.empty()) return "<p>No events were recorded.</p>";
  std::string html =
      "<table><thead><tr><th>Time "
      "(UTC)</th><th>Event</th><th>Step</th><th>Attempt</th><th>Detail</th></tr></thead><tbody>";
  for (const RunEvent& event : record.events) {
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", clock_text(event.wall_ms),
                        escape_html(event.event), event.step, event.attempt, escape_html(event.detail));
  }
  return html + "</tbody></table>";
}

}  // namespace

std::string report_to_html(const RunRecord& record) {
  return fmt::format(
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width, initial-scale=1'><title>Trireme run {0}</title><style>{1}</style></head>\n"
      "<body><main><h1>Training run</h1><p>{0}</p>\n{2}\n{3}\n{4}\n"
      "<p>Dashed lines: checkpoints (green), failures (red), recoveries "
      "(orange).</p>\n<h2>Events</h2>\n{5}\n</main></body></html>\n",
      escape_html(record.title), kStyle, summary(record), plot_to_svg(loss_plot(record)),
      plot_to_svg(throughput_plot(record)), event_table(record));
}

}  // namespace trireme
