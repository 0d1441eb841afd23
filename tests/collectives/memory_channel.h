// Channels within one thread, for tests of what runs over them: rings of any capacity
// that show as little at a time as the test wants.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/transport/api/channel.h"

namespace trireme::test {

struct Pipe {
  explicit Pipe(std::size_t capacity) : ring(capacity) {}
  std::vector<std::byte> ring;
  std::uint64_t written = 0;
  std::uint64_t read = 0;
};

class MemoryChannel final : public Channel {
 public:
  // At most `glimpse` bytes are shown at a time.
  MemoryChannel(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in, std::size_t glimpse)
      : out_(std::move(out)), in_(std::move(in)), glimpse_(glimpse) {}

  std::span<std::byte> reserve() override {
    const std::size_t at = out_->written % out_->ring.size();
    const std::size_t room = out_->ring.size() - (out_->written - out_->read);
    return {out_->ring.data() + at, std::min({room, out_->ring.size() - at, glimpse_})};
  }
  void commit(std::size_t bytes) override { out_->written += bytes; }
  std::span<const std::byte> peek() override {
    const std::size_t at = in_->read % in_->ring.size();
    return {in_->ring.data() + at,
            std::min({static_cast<std::size_t>(in_->written - in_->read), in_->ring.size() - at, glimpse_})};
  }
  void consume(std::size_t bytes) override { in_->read += bytes; }
  std::size_t send_some(std::span<const std::byte> data) override {
    const auto room = reserve();
    const std::size_t bytes = std::min(room.size(), data.size());
    if (bytes > 0) std::memcpy(room.data(), data.data(), bytes);
    commit(bytes);
    return bytes;
  }
  std::size_t receive_some(std::span<std::byte> data) override {
    const auto there = peek();
    const std::size_t bytes = std::min(there.size(), data.size());
    if (bytes > 0) std::memcpy(data.data(), there.data(), bytes);
    consume(bytes);
    return bytes;
  }
  bool progress() override { return false; }
  Status status() const override { return {}; }
  bool drained() const override { return true; }
  std::string_view transport() const override { return "memory"; }

 private:
  std::shared_ptr<Pipe> out_;
  std::shared_ptr<Pipe> in_;
  std::size_t glimpse_;
};

// Both ends of a channel.
inline std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>> memory_channels(std::size_t capacity,
                                                                                     std::size_t glimpse) {
  auto there = std::make_shared<Pipe>(capacity);
  auto back = std::make_shared<Pipe>(capacity);
  return {std::make_unique<MemoryChannel>(there, back, glimpse), std::make_unique<MemoryChannel>(back, there, glimpse)};
}

}  // namespace trireme::test
