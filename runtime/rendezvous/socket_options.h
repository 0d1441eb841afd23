// Socket options that only the rendezvous wants.
#pragma once

namespace trireme::store {

// The kernel probes an idle TCP peer, so that a host that vanished without a word is
// noticed within about 20 s. A stopped process still answers: its kernel does. No effect
// on Unix-domain sockets.
void enable_keepalive(int fd);
// Whether the process at the other end of a Unix-domain socket runs as our user or root.
bool is_same_user(int fd);

}  // namespace trireme::store
