#include <fmt/core.h>

#include <charconv>

#include "launcher/cli/commands.h"
#include "launcher/shim/shim.h"
#include "launcher/system/descriptors.h"
#include "runtime/platform/api/console.h"

namespace trireme {

// `trireme shim FD`: FD is the stream to the coordinator.
int shim_command(const std::vector<std::string>& arguments) {
  int fd = -1;
  const std::string text = arguments.size() == 1 ? arguments[0] : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
  if (error != std::errc() || end != text.data() + text.size() || fd < 3 || !stream_kind(fd).socket) {
    return usage_error("'trireme shim' is started by 'trireme run', not by hand");
  }
  set_process_name("trireme-shim");
  const Status status = Shim::run(Socket(UniqueFd(fd), "coordinator"));
  if (status.is_ok()) return 0;
  print_error(fmt::format("trireme: shim: {}\n", status.to_string()));
  return exit_code(status.code());
}

}  // namespace trireme
