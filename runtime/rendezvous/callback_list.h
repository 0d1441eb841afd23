// Callbacks that come and go while another thread calls them.
//
// add() returns a token; destroying it removes the callback, and once that returned the
// callback is not running and never runs again (unless the token is destroyed by the
// callback itself). Calls are serialised by a recursive lock, so a callback may add and
// remove callbacks.
// Thread safety: all methods.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace trireme::store {

template <typename Callback>
class CallbackList : public std::enable_shared_from_this<CallbackList<Callback>> {
 public:
  std::shared_ptr<void> add(Callback callback) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = next_++;
    entries_.emplace(number, std::make_shared<Callback>(std::move(callback)));
    return std::make_shared<Token>(this->weak_from_this(), number);
  }

  // Oldest first; those that the calls add are not called, those they remove neither.
  template <typename... Arguments>
  void call_all(const Arguments&... arguments) {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> numbers;
    for (const auto& entry : entries_) numbers.push_back(entry.first);
    for (const std::uint64_t number : numbers) {
      const auto found = entries_.find(number);
      if (found == entries_.end()) continue;
      const std::shared_ptr<Callback> callback = found->second;
      (*callback)(arguments...);
    }
  }

  // What all callbacks return, added up, oldest first; `sum` when there is none.
  template <typename Value>
  Value call_joined(Value sum) {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : entries_) sum += (*entry.second)();
    return sum;
  }

  // Keeps calls out while it is held.
  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }

 private:
  struct Token {
    Token(std::weak_ptr<CallbackList> owner, std::uint64_t id) : list(std::move(owner)), number(id) {}
    ~Token() {
      const std::shared_ptr<CallbackList> alive = list.lock();
      if (!alive) return;
      const std::lock_guard lock(alive->mutex_);
      alive->entries_.erase(number);
    }
    std::weak_ptr<CallbackList> list;
    std::uint64_t number;
  };
  std::recursive_mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Callback>> entries_;
  std::uint64_t next_ = 0;
};

}  // namespace trireme::store
