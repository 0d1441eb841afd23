// What the tests on several hosts run there; ranks find each other by TRIREME_* variables.
//   test_multi_host_rank store ADDRESS SIZE  hosts the store until its standard input ends
//   test_multi_host_rank paths               every pair exchanges bytes; prints how it was reached
//   test_multi_host_rank loop TIMEOUT_MS     random collectives, checked, until standard input ends
// paths prints "created MS" (the fabric's start), one explanation per peer, and "ok".
// loop prints "ready", then "done CALLS", or "error CODE MS MESSAGE" with the milliseconds
// since the call began, or "wrong CALL".
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <trireme/platform/clock.h>
#include <trireme/platform/environment.h>

#include "runtime/rendezvous/api/store_server.h"
#include "runtime/transport/table/api/transport_table.h"
#include "tests/contract/support.h"
#include "tests/multi_host/checked_calls.h"

namespace trireme::test {
namespace {

std::uint64_t since_ms(std::uint64_t start_ns) {
  return (system_clock().now_ns() - start_ns) / 1'000'000;
}

bool input_ended() {
  pollfd entry{STDIN_FILENO, POLLIN, 0};
  if (poll(&entry, 1, 0) <= 0) return false;
  char byte;
  return read(STDIN_FILENO, &byte, 1) <= 0;
}

Status serve(const char* address, int size) {
  StoreServerOptions options;
  options.listen_address = address;
  options.job_id = environment("TRIREME_JOB_ID").value_or("");
  options.secret = environment("TRIREME_SECRET").value_or("");
  options.world_size = size;
  TRIREME_ASSIGN_OR_RETURN(const auto server, StoreServer::start(options));
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return Status::ok();
}

Status exchange(Fabric& fabric, Channel& channel, int self, int peer, std::size_t bytes) {
  const auto out = pattern(bytes, static_cast<std::uint64_t>(self * 100 + peer));
  std::vector<std::byte> in(bytes);
  TRIREME_RETURN_IF_ERROR(exchange_all(fabric.doorbell(), channel, out, in));
  if (in == pattern(bytes, static_cast<std::uint64_t>(peer * 100 + self))) return Status::ok();
  return data_loss("bytes differ from rank " + std::to_string(peer));
}

Status paths() {
  TRIREME_ASSIGN_OR_RETURN(const auto world, World::join());
  const std::uint64_t start_ns = system_clock().now_ns();
  FabricOptions options;
  options.transports = transport_table();
  TRIREME_ASSIGN_OR_RETURN(const auto fabric, Fabric::create(world, options));
  std::vector<std::unique_ptr<Channel>> channels(static_cast<std::size_t>(world->size()));
  for (int peer = 0; peer < world->size(); ++peer) {
    if (peer == world->rank()) continue;
    TRIREME_ASSIGN_OR_RETURN(channels[static_cast<std::size_t>(peer)], fabric->open_channel(peer, 7));
  }
  // Round by round every rank meets one other; the first rounds connect, the later ones
  // move enough for several streams.
  for (std::size_t bytes : {std::size_t{1}, std::size_t{3} << 20}) {
    for (int round = 1; round < 64; ++round) {
      const int peer = world->rank() ^ round;
      if (peer >= world->size()) continue;
      TRIREME_RETURN_IF_ERROR(exchange(*fabric, *channels[static_cast<std::size_t>(peer)], world->rank(), peer, bytes));
    }
    if (bytes == 1) std::printf("created %llu\n", static_cast<unsigned long long>(since_ms(start_ns)));
  }
  for (int peer = 0; peer < world->size(); ++peer) {
    if (peer != world->rank()) std::printf("%s\n", fabric->explain(peer).c_str());
  }
  std::puts("ok");
  return Status::ok();
}

int report(const Status& status, std::uint64_t start_ns) {
  std::printf("error %s %llu %s\n", std::string(to_string(status.code())).c_str(),
              static_cast<unsigned long long>(since_ms(start_ns)), status.message().c_str());
  std::fflush(stdout);
  return 1;
}

int loop(std::int64_t timeout_ms) {
  std::uint64_t start_ns = system_clock().now_ns();
  auto world = World::join();
  if (!world.is_ok()) return report(world.status(), start_ns);
  CommunicatorOptions options;
  options.timeout_ms = timeout_ms;
  auto c = Communicator::create(*world, options);
  if (!c.is_ok()) return report(c.status(), start_ns);
  CheckedCalls calls(**c);
  // Programs of a busy machine start seconds apart: they meet on a patient communicator.
  auto patient = Communicator::create(*world);
  if (!patient.is_ok()) return report(patient.status(), start_ns);
  Status status = (*patient)->barrier();
  if (status.is_ok()) status = (*c)->barrier();
  if (!status.is_ok()) return report(status, start_ns);
  std::puts("ready");
  std::fflush(stdout);
  for (std::uint64_t call = 0; status.is_ok(); ++call) {
    start_ns = system_clock().now_ns();
    // One rank's word: all stop after the same call.
    float stop = input_ended() ? 1.0f : 0.0f;
    status = (*c)->all_reduce(&stop, &stop, 1, DataType::f32, ReduceOp::max);
    if (status.is_ok() && stop > 0) {
      std::printf("done %llu\n", static_cast<unsigned long long>(call));
      return 0;
    }
    if (!status.is_ok()) break;
    start_ns = system_clock().now_ns();
    status = calls.run(call);
    if (status.code() == StatusCode::data_loss) {
      std::printf("wrong %s\n", status.message().c_str());
      return 1;
    }
  }
  return report(status, start_ns);
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  using namespace trireme;
  const std::string mode = argc > 1 ? argv[1] : "";
  Status status;
  if (mode == "loop" && argc == 3) {
    return test::loop(std::atoll(argv[2]));
  } else if (mode == "store" && argc == 4) {
    status = test::serve(argv[2], std::atoi(argv[3]));
  } else if (mode == "paths" && argc == 2) {
    status = test::paths();
  } else {
    std::fprintf(stderr, "usage: test_multi_host_rank store ADDRESS SIZE | paths | loop TIMEOUT_MS\n");
    return 2;
  }
  if (!status.is_ok()) std::printf("%s\n", status.to_string().c_str());
  return status.is_ok() ? 0 : 1;
}
