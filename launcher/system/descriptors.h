// Pipes, the standard streams and sealed memory: what the launcher needs of the system
// beyond runtime/platform. Free functions, safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <trireme/base/status.h>

#include "runtime/platform/api/unique_fd.h"

namespace trireme {

// Undoes what whoever started us may have left odd: opens /dev/null for each of the
// descriptors 0 to 2 that is closed, so that no other file of ours can be mistaken for a
// standard stream; and stops ignoring SIGCHLD, which would lose our children's exit codes.
void normalize_process();

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};
Result<Pipe> make_pipe();
Status set_nonblocking(int fd);

// One read or write, at once.
struct Transfer {
  enum class State { moved, would_block, ended, failed };
  State state = State::failed;
  std::size_t bytes = 0;
  int error_number = 0;  // When failed.
};
Transfer read_some(int fd, char* data, std::size_t bytes);
Transfer write_some(int fd, std::string_view data);
// Whether a read would return at once. For descriptors that must stay blocking because
// others share them.
bool input_ready(int fd);

// How a stream that others share may be written without ever blocking.
struct StreamKind {
  bool regular_file = false;  // Always ready.
  bool terminal = false;
  bool socket = false;
  bool operator==(const StreamKind&) const = default;
};
StreamKind stream_kind(int fd);
// Whether both are the same pipe, terminal or socket.
bool same_stream(int a, int b);
// A non-blocking descriptor for the pipe or terminal behind `fd`. O_NONBLOCK belongs to
// the open file, which we share with whoever started us, so this opens it anew.
Result<UniqueFd> reopen_for_writing(int fd);

// An anonymous file that holds `contents` and can never change.
Result<UniqueFd> sealed_memory(const std::string& name, std::string_view contents);

// Raises the soft limit of open descriptors to at least `wanted` where the hard one allows.
// Errors: resource_exhausted that names both.
Status want_descriptors(std::size_t wanted);
// The same question, asked of the hard limit alone: nothing is raised.
Status check_descriptors(std::size_t wanted);
// What the shim of `ranks` ranks needs: pipes, a process descriptor and sockets of each,
// and what it has besides; with files of output two more.
std::size_t descriptors_of_shim(std::size_t ranks, bool with_files);

// "NAME=value" for every variable of ours.
std::vector<std::string> environment_block();
// The name that ps and pgrep show for this process.
void set_process_name(const std::string& name);
// The file this program was started from.
Result<std::string> executable_path();
// Replaces this process. Returns only when it failed.
Status execute(const std::string& path, const std::vector<std::string>& arguments);
bool is_executable_file(const std::string& path);

}  // namespace trireme
