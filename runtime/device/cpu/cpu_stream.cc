#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/device/cpu/cpu_device.h"

namespace trireme {
namespace {

class CpuEvent final : public Event {
 public:
  bool ready() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  Status synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return status_;
  }
  void complete(Status status) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Status status_;
};

// An error of awaited work is kept, first one first, and returned by synchronize() and
// by the events recorded after it.
class CpuStream final : public Stream {
 public:
  CpuStream() : thread_([this] { drain(); }) {}
  ~CpuStream() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    queued_.notify_one();
    thread_.join();
  }

  DeviceId device() const override { return {DeviceKind::cpu, 0}; }

  Status enqueue(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    queued_.notify_one();
    return Status::ok();
  }
  Status copy(void* destination, const void* source, std::size_t bytes) override {
    return enqueue([=] {
      if (bytes > 0) std::memmove(destination, source, bytes);
    });
  }
  Status fill_zero(void* destination, std::size_t bytes) override {
    return enqueue([=] {
      if (bytes > 0) std::memset(destination, 0, bytes);
    });
  }
  Result<std::shared_ptr<Event>> record() override {
    auto event = std::make_shared<CpuEvent>();
    TRIREME_RETURN_IF_ERROR(enqueue([this, event] { event->complete(error()); }));
    return std::shared_ptr<Event>(std::move(event));
  }
  Status wait(std::shared_ptr<Event> event) override {
    return enqueue([this, event = std::move(event)] { keep_error(event->synchronize()); });
  }
  Status synchronize() override {
    TRIREME_ASSIGN_OR_RETURN(const std::shared_ptr<Event> event, record());
    return event->synchronize();
  }

 private:
  Status error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void keep_error(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (error_.is_ok()) error_ = status;
  }
  void drain() {
    std::unique_lock lock(mutex_);
    while (true) {
      queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // What it owns goes before the lock is taken again.
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  Status error_;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace

Result<std::unique_ptr<Stream>> make_cpu_stream() {
  return std::unique_ptr<Stream>(std::make_unique<CpuStream>());
}

}  // namespace trireme
