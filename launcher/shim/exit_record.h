// ExitRecord: what became of an attempt's ranks, kept where a crash cannot lose it.
//
// With an output folder the shim writes "attempt-K.json" there before it tells the
// coordinator, by write, fsync and rename: whoever finds it finds all of it.
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include <trireme/base/status.h>

#include "launcher/protocol/messages.h"

namespace trireme {

struct ExitRecord {
  struct Entry {
    int rank = 0;
    std::int64_t pid = 0;
    bool started = false;
    ExitState exit;
    std::uint64_t ended_wall_ms = 0;  // Since 1970, UTC.
  };
  std::vector<Entry> entries;

  Status write(const JobSpec& job, const message::StartAttempt& attempt) const;
};

}  // namespace trireme
