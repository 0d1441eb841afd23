// EventQueue: events in order of time, those of one time in the order they came.
//
// Ranks that do the same thing make many events of one time, so times are what is
// sorted, and each has a list of its events: far fewer, far cheaper steps than a heap of
// events. Thread safety: none.
#pragma once

#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

namespace trireme::plan {

template <typename Event>
class EventQueue {
 public:
  bool empty() const { return times_.empty(); }
  // REQUIRES: time is no earlier than now().
  void push(double time, const Event& event) {
    const auto [place, is_new] = lists_.try_emplace(time, 0);
    if (is_new) {
      if (unused_.empty()) {
        unused_.push_back(static_cast<std::uint32_t>(events_.size()));
        events_.emplace_back();
      }
      place->second = unused_.back();
      unused_.pop_back();
      times_.push({time, place->second});
    }
    events_[place->second].push_back(event);
  }
  // REQUIRES: !empty(). Events pushed for now() before the last one of now is taken come now.
  Event pop() {
    const auto [time, list] = times_.top();
    now_ = time;
    const Event event = events_[list][taken_++];
    if (taken_ == events_[list].size()) {
      events_[list].clear();
      unused_.push_back(list);
      lists_.erase(time);
      times_.pop();
      taken_ = 0;
    }
    return event;
  }
  double now() const { return now_; }

 private:
  using Time = std::pair<double, std::uint32_t>;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> times_;
  std::unordered_map<double, std::uint32_t> lists_;
  std::vector<std::vector<Event>> events_;
  std::vector<std::uint32_t> unused_;
  std::size_t taken_ = 0;  // Of the earliest time's list.
  double now_ = 0;
};

}  // namespace trireme::plan
