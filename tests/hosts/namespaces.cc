#include "tests/hosts/namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/core.h>

namespace trireme::test {
namespace {

// A new network namespace, held by the descriptor alone.
UniqueFd new_namespace() {
  UniqueFd fd;
  std::thread([&fd] {
    if (unshare(CLONE_NEWNET) == 0) fd = UniqueFd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }).join();
  return fd;
}

// Several commands of `ip`, one a line, inside a namespace.
bool ip_in(int fd, const std::string& commands) {
  const std::string run = fmt::format("nsenter --net=/proc/{}/fd/{} ip -batch - >/dev/null 2>&1", getpid(), fd);
  FILE* pipe = popen(run.c_str(), "w");
  if (pipe == nullptr) return false;
  std::fputs(commands.c_str(), pipe);
  std::fputc('\n', pipe);
  return pclose(pipe) == 0;
}

std::string address_of(int host, Addressing addressing) {
  switch (addressing) {
    case Addressing::ipv4:
      return fmt::format("addr add 10.77.0.{}/24 dev eth0", host + 1);
    case Addressing::ipv6:
      return fmt::format("addr add fd77::{}/64 dev eth0 nodad", host + 1);
    case Addressing::link_local:
      return fmt::format("addr add fe80::{}/64 dev eth0 nodad", host + 1);
  }
  return "";
}

}  // namespace

std::unique_ptr<Namespaces> Namespaces::create(int hosts, Addressing addressing, std::string& why_not) {
  why_not = "network namespaces need root and the `ip` and `nsenter` programs";
  if (geteuid() != 0) return nullptr;
  auto made = std::make_unique<Namespaces>();
  made->hub_ = new_namespace();
  if (!made->hub_.valid()) return nullptr;
  if (!made->hub_ip("link add br0 type bridge\nlink set br0 addrgenmode none up")) return nullptr;
  for (int host = 0; host < hosts; ++host) {
    made->hosts_.push_back(new_namespace());
    if (!made->hosts_.back().valid()) return nullptr;
    const int fd = made->hosts_.back().get();
    const std::string plug = fmt::format(
        "link add v{0} type veth peer name eth0 netns /proc/{1}/fd/{2}\nlink set v{0} master br0\n"
        "link set v{0} addrgenmode none up",
        host, getpid(), fd);
    const std::string start = "link set lo up\nlink set eth0 addrgenmode none up\n" + address_of(host, addressing);
    if (!made->hub_ip(plug) || !made->ip(host, start)) return nullptr;
  }
  why_not.clear();
  return made;
}

void Namespaces::enter(int host) const {
  if (setns(hosts_[static_cast<std::size_t>(host)].get(), CLONE_NEWNET) == 0) return;
  std::fprintf(stderr, "entering a network namespace: %s\n", strerrorname_np(errno));
  std::abort();
}

bool Namespaces::ip(int host, const std::string& arguments) const {
  return ip_in(hosts_[static_cast<std::size_t>(host)].get(), arguments);
}

bool Namespaces::hub_ip(const std::string& arguments) const {
  return ip_in(hub_.get(), arguments);
}

}  // namespace trireme::test
