#!/usr/bin/env bash
# Installs what building and testing alignd needs, on Debian 12 and what is like it.
#   scripts/install-deps.sh [GROUP...]   without a group: build, runtime and test
#     build    to compile alignd, alignctl and alignsim
#     runtime  to run containers in a containerd of one's own
#     test     to compile and run the tests, with both compilers
#     guest    to run the test on a machine with two NUMA nodes, in an emulator (about 200 MB); its
#              kernel is unpacked into build/guest, not installed
# Does nothing, and needs no network and no rights, where everything is there already.
set -euo pipefail

build=(
  g++ cmake ninja-build pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  nlohmann-json3-dev libspdlog-dev libcli11-dev libyaml-cpp-dev libsystemd-dev
  libnghttp2-dev
)
# gcc compiles the program of the pods' sandboxes.
runtime=(runc busybox-static gcc libc6-dev)
test=(
  clang-14 clang-format-14 libclang-rt-14-dev libgtest-dev libbenchmark-dev
  iproute2 procps
  xz-utils  # captured machines are .tar.xz
)
guest=(qemu-system-x86 busybox-static binutils)
# A containerd from elsewhere would be replaced by Debian's; the tests start their own instance of
# whichever is there, with a directory and a socket of its own.
command -v containerd >/dev/null || runtime+=(containerd)

groups=("$@")
if [ ${#groups[@]} -eq 0 ]; then groups=(build runtime test); fi
packages=() want_kernel=false
for group in "${groups[@]}"; do
  case $group in
    build) packages+=("${build[@]}") ;;
    runtime) packages+=("${runtime[@]}") ;;
    test) packages+=("${test[@]}") ;;
    guest) packages+=("${runtime[@]}" "${guest[@]}") want_kernel=true ;;
    *) sed -n '2,9p' "$0" >&2; exit 2 ;;
  esac
done

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
else
  missing=("${packages[@]}")
fi

root=()
need_root() {
  if [ "$(id -u)" = 0 ]; then return; fi
  command -v sudo >/dev/null || { echo "install-deps: needs root or sudo" >&2; exit 1; }
  root=(sudo)
}

# Unpacks the boot image and the module overlay of Debian's kernel for virtual machines.
unpack_kernel() {
  local package work
  package=$(apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
  [ -n "$package" ] || return 1
  echo "install-deps: unpacking $package into $kernel"
  work=$(mktemp -d)
  # The user that apt fetches as may not write here.
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" &&
    dpkg-deb -x ./*.deb . &&
    mv boot/vmlinuz-* vmlinuz && find . -name overlay.ko -exec mv {} overlay.ko ';') &&
    mkdir -p "$kernel" && cp "$work/overlay.ko" "$work/vmlinuz" "$kernel"
  local status=$?
  rm -rf "$work"
  return "$status"
}

get_kernel() {
  kernel=$(dirname "$0")/../build/guest/kernel
  if ! $want_kernel || [ -f "$kernel/vmlinuz" ] || unpack_kernel; then return; fi
  # Lists that are absent or too old.
  need_root
  "${root[@]}" apt-get update -qq
  unpack_kernel
}

if [ ${#missing[@]} -eq 0 ]; then
  get_kernel
  echo "install-deps: everything is installed"
  exit 0
fi

# shellcheck source=/dev/null
version=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || version=
if [ "$version" != "debian 12" ]; then
  echo "install-deps: this is \"$version\", not Debian 12; install these or their like by hand:" >&2
  echo "  ${missing[*]}" >&2
  exit 1
fi

need_root
echo "install-deps: installing ${missing[*]}"
# Debian starts a service with its package. The tests do not need containerd's, so a machine with
# systemd that had no containerd before gets one that is installed but not running.
hold_service=false
if [[ " ${missing[*]} " == *" containerd "* ]] && [ -d /run/systemd/system ]; then
  hold_service=true
  "${root[@]}" systemctl mask --runtime containerd.service
fi
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
if $hold_service; then "${root[@]}" systemctl unmask --runtime containerd.service; fi
get_kernel
