// A network described by classes of equal links, so that 65,536 ranks are a few lines.
//
// Ranks are numbered host by host. Levels stand nearest first. A level joins the ranks of
// one block (`reaches` consecutive ranks); with rails > 1 only those of equal rail, the
// rail of a rank being its place in its host, cut into `rails` parts. Two ranks use the
// first level that joins them.
//
// Levels of kind network form a chain: a message joined at one of them passes the links
// into it and into each network level below it, up and down again. A level of another
// kind (NVLink, memory) stands alone: only its own links are passed.
//
// Every link is duplex: up and down do not share its bandwidth. Thread safety: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <trireme/base/status.h>

namespace trireme {

enum class LinkKind { internal, memory, pci_express, nvlink, network };
inline constexpr int kLinkKindCount = 5;
std::string_view to_string(LinkKind kind);

struct NetworkLevel {
  std::string name;  // "nvlink", "leaf", "spine"
  LinkKind kind = LinkKind::network;
  int reaches = 0;  // Ranks of one block; 0: all.
  int rails = 1;    // A divisor of ranks_per_host.
  // Ranks that share one link into this level. They are consecutive ranks of one rail: of
  // the network level below, when there is one, else of this level.
  int shared_by = 1;
  double bytes_per_second = 0;  // Of one link, each direction.
  double latency_us = 0;        // Of a message joined at this level, end to end, one way.
  // What all messages joined in one block share (memory, processor); 0: no such limit.
  double block_bytes_per_second = 0;
  bool operator==(const NetworkLevel&) const = default;
};

struct DescribedNetwork {
  int ranks_per_host = 1;
  double message_us = 0;             // A rank's own time per message, at either end.
  double work_bytes_per_second = 0;  // A rank's local reductions and copies; 0: free.
  std::vector<NetworkLevel> levels;
  bool operator==(const DescribedNetwork&) const = default;

  // ok, or invalid_argument naming the level and the field that breaks the rules above.
  Status check() const;
};

}  // namespace trireme
