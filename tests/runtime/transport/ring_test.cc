#include "runtime/transport/shm/ring.h"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct Memory {
  explicit Memory(std::size_t capacity)
      : bytes(ring_pair_bytes(capacity)),
        data(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(64)))),
        pair(make_ring_pair(data, capacity)) {}
  ~Memory() { ::operator delete(data, std::align_val_t(64)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::size_t bytes;
  std::byte* data;
  RingPair* pair;
};

std::size_t write_some(RingWriter& writer, std::uint64_t& next, std::size_t most) {
  const auto room = writer.reserve();
  const std::size_t bytes = std::min(room.size(), most);
  for (std::size_t i = 0; i < bytes; ++i) room[i] = static_cast<std::byte>(next++ * 7);
  writer.commit(bytes);
  return bytes;
}

std::size_t read_some(RingReader& reader, std::uint64_t& next, std::size_t most) {
  const auto arrived = reader.peek();
  const std::size_t bytes = std::min(arrived.size(), most);
  for (std::size_t i = 0; i < bytes; ++i) EXPECT_EQ(arrived[i], static_cast<std::byte>(next++ * 7));
  reader.consume(bytes);
  return bytes;
}

TEST(Ring, CarriesAStreamThroughRandomPiecesAndWraps) {
  Memory memory(64);
  for (int index : {0, 1}) {
    RingWriter writer(memory.pair, index);
    RingReader reader(memory.pair, index);
    std::mt19937 random(static_cast<unsigned>(index));
    std::uint64_t written = 0;
    std::uint64_t read = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (random() % 2 == 0)
        write_some(writer, written, random() % 70);
      else
        read_some(reader, read, random() % 70);
      ASSERT_LE(written - read, 64u);
    }
    while (read_some(reader, read, 64) != 0) {
    }
    EXPECT_EQ(read, written);
    EXPECT_GT(written, 1000u);
  }
}

TEST(Ring, RingsTheReaderOnlyWhenItHasSeenEverything) {
  Memory memory(1024);
  RingWriter writer(memory.pair, 0);
  RingReader reader(memory.pair, 0);
  const auto put = [&] {
    EXPECT_GE(writer.reserve().size(), 8u);
    return writer.commit(8);
  };
  EXPECT_TRUE(put());   // The reader may sleep over the empty ring.
  EXPECT_FALSE(put());  // It was rung and has not looked since.
  EXPECT_EQ(reader.peek().size(), 16u);
  EXPECT_TRUE(put());  // It looked, and may sleep although it took nothing.
  EXPECT_EQ(reader.peek().size(), 24u);
}

TEST(Ring, RingsTheWriterOnlyWhenItWasShortOfRoom) {
  Memory memory(64);
  RingWriter writer(memory.pair, 0);
  RingReader reader(memory.pair, 0);
  writer.reserve();
  writer.commit(8);
  writer.reserve();  // 56 of 64 are free.
  reader.peek();
  EXPECT_FALSE(reader.consume(8));
  writer.reserve();
  writer.commit(56);
  EXPECT_EQ(writer.reserve().size(), 8u);  // More than half full.
  reader.peek();
  EXPECT_TRUE(reader.consume(1));
  EXPECT_FALSE(reader.consume(1));  // Rung once for what the writer saw.
}

TEST(Ring, EndsAfterTheLastByte) {
  Memory memory(64);
  RingWriter writer(memory.pair, 0);
  RingReader reader(memory.pair, 0);
  writer.reserve();
  writer.commit(3);
  writer.close();
  EXPECT_FALSE(reader.at_end());
  reader.peek();
  reader.consume(3);
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(writer.reader_closed());
  reader.close();
  EXPECT_TRUE(writer.reader_closed());
}

TEST(Ring, ImpossiblePositionsAreCorruptionNotAccess) {
  Memory memory(64);
  RingWriter writer(memory.pair, 0);
  RingReader reader(memory.pair, 0);
  memory.pair->words[0].tail = 1000;
  EXPECT_TRUE(reader.peek().empty());
  EXPECT_TRUE(reader.corrupt());
  memory.pair->words[0].head = 1000;
  EXPECT_TRUE(writer.reserve().empty());
  EXPECT_TRUE(writer.corrupt());
}

// Both sides sleep by the rules of the notes; a wake that is lost hangs the test.
TEST(Ring, LosesNoWakeBetweenThreads) {
  constexpr std::uint64_t kBytes = 400'000;
  Memory memory(256);
  std::atomic<std::uint32_t> bells[2] = {0, 0};
  const auto ring = [&](int side) {
    bells[side].fetch_add(1);
    bells[side].notify_all();
  };
  std::thread producer([&] {
    RingWriter writer(memory.pair, 0);
    std::uint64_t next = 0;
    while (next < kBytes) {
      const std::uint32_t seen = bells[0].load();
      const auto room = writer.reserve();
      const std::size_t bytes = std::min<std::size_t>(room.size(), kBytes - next);
      if (bytes == 0) {
        bells[0].wait(seen);
        continue;
      }
      for (std::size_t i = 0; i < bytes; ++i) room[i] = static_cast<std::byte>(next++ * 7);
      if (writer.commit(bytes)) ring(1);
    }
  });
  RingReader reader(memory.pair, 0);
  std::uint64_t next = 0;
  while (next < kBytes) {
    const std::uint32_t seen = bells[1].load();
    const auto arrived = reader.peek();
    if (arrived.empty()) {
      bells[1].wait(seen);
      continue;
    }
    const std::size_t bytes = std::min<std::size_t>(arrived.size(), 100);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(arrived[i], static_cast<std::byte>(next++ * 7));
    if (reader.consume(bytes)) ring(0);
  }
  producer.join();
}

}  // namespace
}  // namespace trireme
