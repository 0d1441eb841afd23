// A program as its users write them: only nccl.h, no Trireme. It makes no CUDA calls and
// passes host pointers. Linked with -lnccl and no path: LD_LIBRARY_PATH finds the library.
//   nccl_program file PATH RANK SIZE    rank 0 writes the unique id to PATH, the others read it
//   nccl_program mpi PATH               the same, rank and size from mpirun
//   nccl_program fork SIZE              the parent makes the id, its children are the ranks
//   nccl_program stay PATH RANK SIZE    says "ready", then all but the last rank call on and on
// Prints what failed; exit code 0 when nothing did.
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const ncclResult_t result = call;                                                            \
    if (result != ncclSuccess) {                                                                 \
      std::printf("%s: %s: %s\n", #call, ncclGetErrorString(result), ncclGetLastError(nullptr)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (false)

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

void use(ncclComm_t comm, int rank, int size) {
  constexpr std::size_t kCount = 10'000;
  std::vector<float> in(kCount, static_cast<float>(rank + 1));
  std::vector<float> out(kCount * static_cast<std::size_t>(size));
  CHECK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat, ncclSum, comm, nullptr));
  const float sum = static_cast<float>(size * (size + 1)) / 2;
  for (std::size_t i = 0; i < kCount; ++i) expect(out[i] == sum, "sum");
  CHECK(ncclAllGather(in.data(), out.data(), kCount, ncclFloat, comm, nullptr));
  for (std::size_t i = 0; i < out.size(); ++i) expect(out[i] == static_cast<float>(i / kCount + 1), "gathered");
  // Everybody to the next, in a ring.
  CHECK(ncclGroupStart());
  CHECK(ncclSend(in.data(), kCount, ncclFloat, (rank + 1) % size, comm, nullptr));
  CHECK(ncclRecv(out.data(), kCount, ncclFloat, (rank + size - 1) % size, comm, nullptr));
  CHECK(ncclGroupEnd());
  expect(out[0] == static_cast<float>((rank + size - 1) % size + 1), "received");
}

// Until it fails, which it must tell by name.
[[noreturn]] void stay(ncclComm_t comm, bool calls) {
  std::printf("ready\n");
  std::fflush(stdout);
  while (!calls) pause();
  float value = 1;
  while (true) {
    const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat, ncclMax, comm, nullptr);
    if (result == ncclSuccess) continue;
    std::printf("%d %s\n", result, ncclGetLastError(comm));
    std::fflush(stdout);
    std::exit(0);  // Whoever hosts the meeting place stays until the others have left it.
  }
}

int run(const ncclUniqueId& id, int rank, int size, bool stays) {
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, size, id, rank));
  if (stays) stay(comm, rank != size - 1);
  use(comm, rank, size);
  CHECK(ncclCommDestroy(comm));
  return 0;
}

ncclUniqueId exchange_id(const std::string& path, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    expect(std::rename((path + ".new").c_str(), path.c_str()) == 0, "rename");
    return id;
  }
  while (!std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal)) usleep(1000);
  return id;
}

int fork_ranks(int size) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  for (int rank = 0; rank < size; ++rank) {
    if (fork() == 0) std::exit(run(id, rank, size, false));
  }
  int failures = 0;
  int state = 0;
  while (wait(&state) > 0) failures += state != 0;
  return failures;
}

int number(const char* text) {
  return static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "fork" && argc == 3) return fork_ranks(number(argv[2]));
  const char* rank = mode == "mpi" ? std::getenv("OMPI_COMM_WORLD_RANK") : argc > 3 ? argv[3] : nullptr;
  const char* size = mode == "mpi" ? std::getenv("OMPI_COMM_WORLD_SIZE") : argc > 4 ? argv[4] : nullptr;
  if (argc < 3 || rank == nullptr || size == nullptr) {
    std::printf("usage: nccl_program file|mpi|fork|stay ... (see the first lines of its source)\n");
    return 2;
  }
  return run(exchange_id(argv[2], number(rank)), number(rank), number(size), mode == "stay");
}
