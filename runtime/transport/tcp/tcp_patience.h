// How long callers ask a silent socket themselves before they sleep, learnt from what came
// of it.
//
// A rank with a core of its own asks for longer than a peer that sleeps takes to wake up and
// answer, so that two that talk do not send each other to sleep. It doesn't give way meanwhile:
// when the peer was put on this very core, sleeping is what lets the scheduler part the two.
// But where asking was in vain (the peer computes, is far away, or finds no other core), it
// lasts a thirty-second part, ends with giving way a few times, and only every sixteenth silence
// is asked in full again, to find out. Without a core of its own, giving way is what helps.
// Thread safety: none; a value of its connection. Pure: time comes from outside.
#pragma once

#include <cstdint>

namespace trireme {

struct TcpPolling {
  std::uint64_t spin_ns = 0;  // 0: without a core of its own.
  unsigned yields = 0;        // Attempts before which the caller gives way.
};

class TcpPatience {
 public:
  enum class Next { ask_again, give_way, sleep };

  explicit TcpPatience(TcpPolling polling) : polling_(polling) {}

  // Bytes were sent: an answer may come soon.
  void sent() { silent_ = false; }
  // Bytes came.
  void received() {
    if (silent_ && !slept_) vain_ = yields_ == 0 ? 0 : vain_ + 1;
    silent_ = false;
  }
  // Nothing came, at `now_ns` of any clock: what now?
  Next nothing(std::uint64_t now_ns) {
    if (!silent_) begin(now_ns);
    const std::uint64_t spin_ns = in_full_ ? polling_.spin_ns : polling_.spin_ns / kShortShare;
    if (now_ns - since_ns_ < spin_ns) return Next::ask_again;
    if (!in_full_ && yields_ < polling_.yields) {
      ++yields_;
      return Next::give_way;
    }
    if (!slept_) ++vain_;
    slept_ = true;
    return Next::sleep;
  }

 private:
  static constexpr unsigned kShortShare = 32;  // Of the time.
  static constexpr unsigned kFullEvery = 16;   // Of the silences.
  void begin(std::uint64_t now_ns) {
    silent_ = true;
    slept_ = false;
    in_full_ = polling_.spin_ns > 0 && vain_ % kFullEvery == 0;
    since_ns_ = now_ns;
    yields_ = 0;
  }

  TcpPolling polling_;
  unsigned vain_ = 0;  // Silences in a row that spinning didn't outlast.
  // Of this silence:
  bool silent_ = false;  // Nothing has moved since since_ns_.
  bool slept_ = false;
  bool in_full_ = true;
  std::uint64_t since_ns_ = 0;
  unsigned yields_ = 0;
};

}  // namespace trireme
