// trireme-gpt: trains a byte-level GPT by data parallelism on all ranks it is started as.
#include <fmt/core.h>

#include <trireme/telemetry/log.h>

#include "examples/gpt/options.h"
#include "examples/gpt/run.h"
#include "runtime/platform/api/console.h"

namespace {

int fail(const trireme::World* world, const trireme::Status& status) {
  const std::string who = world == nullptr ? "" : world->peer(world->rank()).to_string() + ": ";
  trireme::print_error(fmt::format("trireme-gpt: {}{}\n", who, status.to_string()));
  return trireme::exit_code(status.code());
}

int run(int argc, char** argv) {
  using namespace trireme;
  Result<gpt::CommandLine> command_line = gpt::parse_command_line(argc, argv);
  if (!command_line.is_ok()) return fail(nullptr, command_line.status());
  if (command_line->done) {
    print_out(command_line->text);
    return 0;
  }
  Result<std::shared_ptr<World>> world = World::join();
  if (!world.is_ok()) return fail(nullptr, world.status());
  const PeerInfo& self = (*world)->peer((*world)->rank());
  set_log_identity(fmt::format("{}:{}", self.host, self.rank));

  Result<std::unique_ptr<gpt::Run>> run = gpt::Run::create(command_line->options, *world);
  if (!run.is_ok()) return fail(world->get(), run.status());
  const Status status = (*run)->execute();
  return status.is_ok() ? 0 : fail(world->get(), status);
}

}  // namespace

int main(int argc, char** argv) {
  return trireme::run_main("trireme-gpt", [&] { return run(argc, argv); });
}
