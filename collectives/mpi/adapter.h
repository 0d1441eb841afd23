// The seam between Trireme and libtrireme_mpi.so, the one file that is built with an MPI.
//
// The adapter is loaded when a communicator asks for backend "mpi"; it exports one
// function, which returns this table. Only C types cross, so that the adapter shares no
// code with the library that loads it. Enumerations are those of Trireme as int.
// Texts are written into the caller's buffer, cut if need be.
// Thread safety: one thread at a time per communicator, as far as the MPI permits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::mpi {

inline constexpr int kAdapterVersion = 1;
inline constexpr const char* kAdapterSymbol = "trireme_mpi_adapter";

struct Text {
  char* data = nullptr;
  std::size_t bytes = 0;
};

struct AdapterCall {
  int kind = 0;  // CallKind
  int type = 0;  // DataType
  int op = 0;    // ReduceOp: sum, product, min, max
  int root = 0;  // Or the other rank of a message.
  int tag = 0;
  std::uint64_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;
  const std::int64_t* counts = nullptr;          // Of uneven parts, else null.
  const std::int64_t* receive_counts = nullptr;  // Of all_to_all_v, else null.
};

struct Adapter {
  int version = kAdapterVersion;
  // Whether somebody has called MPI_Init in this process.
  bool (*is_initialized)() = nullptr;
  // MPI_Init_thread unless that was done; MPI_Finalize at exit is then the adapter's too. A
  // communicator of all ranks, apart from the program's own traffic; null with a text.
  void* (*open)(Text error) = nullptr;
  // Collective. Null for a negative color, or with a text.
  void* (*split)(void* communicator, int color, int key, Text error) = nullptr;
  void (*close)(void* communicator) = nullptr;
  int (*rank)(void* communicator) = nullptr;
  int (*size)(void* communicator) = nullptr;
  void (*library_version)(Text text) = nullptr;
  // A request, or null with a text.
  void* (*start)(void* communicator, const AdapterCall* call, Text error) = nullptr;
  // 1: done and freed. 0: not yet. -1: failed, with a text, and freed.
  int (*test)(void* request, Text error) = nullptr;
};

}  // namespace trireme::mpi
