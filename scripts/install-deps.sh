#!/usr/bin/env bash
# Installs the packages that alignd needs on Debian 12.
#   scripts/install-deps.sh [GROUP...]   without a group: build, runtime and test
#     build    compilers and libraries for alignd, alignctl and alignsim
#     runtime  containerd and runc, to run containers
#     test     both compilers and the libraries of the tests
#     guest    an emulator with a kernel, for the test on two NUMA nodes (about 200 MB). The kernel is
#              unpacked into build/guest, not installed.
#     packages lintian, debootstrap and what else making and testing a release needs
#     kubernetes  what checking the manifests and the Helm chart needs (Go and its libraries: 600 MB)
# If everything is installed, the script changes nothing and needs neither network nor root.
set -euo pipefail

build=(
  g++ cmake ninja-build pkg-config
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  nlohmann-json3-dev libspdlog-dev libcli11-dev libyaml-cpp-dev
  libnghttp2-dev prometheus-cpp-dev libcpp-httplib-dev libssl-dev libbrotli-dev zlib1g-dev libdbus-1-dev libhwloc-dev
)
# gcc compiles the pause program of the pod sandboxes.
runtime=(runc busybox-static gcc libc6-dev)
test=(
  clang-14 clang-format-14 libclang-rt-14-dev lld-14 libgtest-dev libbenchmark-dev
  iproute2 procps
  hwloc  # lstopo: what it writes is compared with sysfs
  libexpat1-dev  # the tests read pictures (SVG) as XML
  chromium  # opens the live page; without it, that test is skipped
  xz-utils  # captured machines are .tar.xz
  prometheus  # promtool; its service is not started
  openssl  # certificates of a test's API server
)
guest=(qemu-system-x86 busybox-static binutils systemd)
# openssl is one side of a connection when scripts/release.sh verifies the programs.
packaging=(dpkg-dev lintian debootstrap python3 python3-yaml busybox-static openssl)
kubernetes=(
  golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev
  python3 python3-kubernetes python3-jsonschema python3-yaml busybox-static
)
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
    packages) packages+=("${build[@]}" "${runtime[@]}" "${packaging[@]}") ;;
    kubernetes) packages+=("${kubernetes[@]}") ;;
    *) sed -n '2,11p' "$0" >&2; exit 2 ;;
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
# Debian starts the services of containerd and prometheus when the packages are installed, and at each
# boot. The tests need only the programs, so the services are kept from starting.
held=()
if [ -d /run/systemd/system ]; then
  for package in containerd prometheus; do
    if [[ " ${missing[*]} " == *" $package "* ]]; then held+=("$package.service"); fi
  done
fi
[ ${#held[@]} -eq 0 ] || "${root[@]}" systemctl mask --runtime "${held[@]}"
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
if [ ${#held[@]} -gt 0 ]; then
  "${root[@]}" systemctl unmask --runtime "${held[@]}"
  "${root[@]}" systemctl disable --quiet "${held[@]}"
fi
get_kernel
