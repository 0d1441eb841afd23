#include <nlohmann/json.hpp>

#include "runtime/telemetry/api/inspect.h"

namespace trireme {

std::string rank_view_to_json(const RankView& view) {
  const nlohmann::ordered_json json = {{"rank", view.rank},   {"host", view.host},
                                       {"pid", view.pid},     {"state", std::string(1, view.state)},
                                       {"ended", view.ended}, {"failed", view.failed}};
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.back() = ',';  // The recording is JSON already.
  return text + "\"recording\":" + (view.recording ? recording_to_json(*view.recording) : "null") + "}";
}

Result<RankView> rank_view_from_json(std::string_view text) {
  RankView view;
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    view.rank = json.at("rank").get<int>();
    view.host = json.at("host").get<std::string>();
    view.pid = json.at("pid").get<std::int64_t>();
    const auto state = json.at("state").get<std::string>();
    view.state = state.size() == 1 ? state[0] : '?';
    view.ended = json.at("ended").get<std::string>();
    view.failed = json.at("failed").get<bool>();
    const auto& recording = json.at("recording");
    if (recording.is_null()) return view;
    TRIREME_ASSIGN_OR_RETURN(view.recording, recording_from_json(recording.dump()));
  } catch (const std::exception& error) {
    return invalid_argument(std::string("not a view of a rank: ") + error.what());
  }
  return view;
}

}  // namespace trireme
