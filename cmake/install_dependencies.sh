#!/usr/bin/env bash
# Installs from the distribution (Debian 12 and later, Ubuntu 24.04 and later) what
# building, testing and the quickstart need and this machine lacks. Nothing comes from
# anywhere else. A second run finds everything installed and needs no network.
#   cmake/install_dependencies.sh           installs what is missing
#   cmake/install_dependencies.sh --list    prints the list and stops
# CUDA and NCCL are not installed here: they are used when they are present.
set -euo pipefail

# One package a line, and why. docs/architecture.md says why each library was chosen.
packages='
g++                   compiles everything
cmake                 configures the build
ninja-build           runs it
make                  what CMake takes for your own programs when nothing else is asked for
git                   lists the tree for tests/tidy
ccache                makes the second build and every sanitizer build quick
pkg-config            finds hwloc, xxHash, verbs
python3               runs tests/tidy
libdnnl-dev           oneDNN: matrix products on the CPU
libfmt-dev            formats messages
libspdlog-dev         logging
libcli11-dev          command lines
nlohmann-json3-dev    JSON
libtomlplusplus-dev   TOML
libhwloc-dev          topology of the host, binding
libpugixml-dev        NCCL topology files
libxxhash-dev         checksums
libssl-dev            job secrets, TLS
libgtest-dev          tests
libibverbs-dev        RDMA
librdmacm-dev         RDMA connections
libopenmpi-dev        start under mpirun, MPI as a backend to compare with
openmpi-bin           mpirun, for the tests
libpmix-dev           rank and size under mpirun and srun
qemu-system-x86       tests/rdma_vm: RDMA in a virtual machine
busybox-static        its first program
cpio                  its start-up image
kmod                  the order in which its modules load
ibverbs-providers     what drives RDMA devices
iproute2              network namespaces as hosts in tests; RDMA devices of the virtual machine
nftables              lost frames and black holes between them
bible-kjv             the English text that the quickstart trains on
'

say() { echo "install_dependencies: $*"; }

case ${1-} in
  '') ;;
  --list) echo "$packages" | sed '/^$/d'; exit 0 ;;
  *) echo "usage: cmake/install_dependencies.sh [--list]" >&2; exit 2 ;;
esac

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || {
  echo "install_dependencies: this is no Debian or Ubuntu system (no apt-get); install the counterparts of:" >&2
  echo "$packages" >&2
  exit 2
}

missing=()
while read -r package _; do
  [ -n "$package" ] || continue
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | sort -u || true)
  grep -qx installed <<<"$status" || missing+=("$package")
done <<<"$packages"

if [ ${#missing[@]} -eq 0 ]; then
  say "everything is installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install_dependencies: not root, and no sudo here; ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 2
  }
  as_root=(sudo)
fi
say "installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
say "installed ${#missing[@]} packages"
