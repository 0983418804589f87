#!/usr/bin/env bash
# Installs the packages that alignd needs on Debian 12.
#   scripts/install-deps.sh [GROUP...]   without a group: build, runtime and test
#     build    compilers and libraries for alignd, alignctl and alignsim
#     runtime  containerd and runc, to run containers
#     test     both compilers and the libraries of the tests
#     guest    an emulator with a kernel, for the test on two NUMA nodes (about 200 MB). The kernel is
#              unpacked into build/guest, not installed.
# If everything is installed, the script changes nothing and needs neither network nor root.
set -euo pipefail

build=(
  g++ cmake ninja-build pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  nlohmann-json3-dev libspdlog-dev libcli11-dev libyaml-cpp-dev libsystemd-dev
  libnghttp2-dev
)
# gcc compiles the pause program of the pod sandboxes.
runtime=(runc busybox-static gcc libc6-dev)
test=(
  clang-14 clang-format-14 libclang-rt-14-dev libgtest-dev libbenchmark-dev
  iproute2 procps
  xz-utils  # captured machines are .tar.xz
)
guest=(qemu-system-x86 busybox-static binutils)
# An installed containerd of another origin is kept: Debian's package would replace it. The tests start
# an instance of their own, with its own directory and socket.
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
  command -v sudo >/dev/null || { echo "install-deps: installing packages needs root or sudo" >&2; exit 1; }
  root=(sudo)
}

# Unpacks the boot image and the module "overlay" of Debian's kernel for virtual machines.
unpack_kernel() {
  local package work
  package=$(apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
  [ -n "$package" ] || return 1
  echo "install-deps: unpacking $package into $kernel"
  work=$(mktemp -d)
  # The user _apt, as which apt downloads, may not write to this directory.
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
  # The package lists are missing or too old.
  need_root
  "${root[@]}" apt-get update -qq
  unpack_kernel
}

if [ ${#missing[@]} -eq 0 ]; then
  get_kernel
  echo "install-deps: all packages are installed"
  exit 0
fi

# shellcheck source=/dev/null
version=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || version=
if [ "$version" != "debian 12" ]; then
  echo "install-deps: this system is \"$version\", not Debian 12. Install these packages by hand:" >&2
  echo "  ${missing[*]}" >&2
  exit 1
fi

need_root
echo "install-deps: installing ${missing[*]}"
# Debian starts containerd's service when the package is installed. The tests do not need the service,
# so it is kept from starting.
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
