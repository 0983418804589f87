#!/usr/bin/env bash
# Makes static libraries of what Debian has as shared libraries only: fmt, spdlog, prometheus-cpp and
# cpp-httplib, the last one twice: without TLS, and with what Debian's library has, for the programs that
# call the API server. The static programs are linked with them (CMake option ALIGND_STATIC).
#   scripts/lib/static-libraries.sh DIR    writes DIR/lib*.a
# The sources are Debian's, in the versions of the installed development packages, and are downloaded
# with apt, which checks their signatures. The system's package lists are not changed. If this script has
# made the libraries of these versions in DIR, nothing is done.
set -euo pipefail
mkdir -p "$1"
dir=$(cd "$1" && pwd)
flags=(-std=c++20 -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffunction-sections)

# A source package, and the development package that is installed.
packages=(fmtlib:libfmt-dev spdlog:libspdlog-dev prometheus-cpp:prometheus-cpp-dev
  cpp-httplib:libcpp-httplib-dev)
wanted=
for package in "${packages[@]}"; do
  version=$(dpkg-query -W -f '${source:Version}' "${package#*:}") || {
    echo "static-libraries: ${package#*:} is not installed: run scripts/install-deps.sh build" >&2
    exit 1
  }
  wanted+="${package%%:*}=$version"$'\n'
done
made="${wanted}script=$(sha256sum <"$0" | cut -c 1-16)"
if [ "$(cat "$dir/versions" 2>/dev/null)" = "$made" ]; then
  echo "static-libraries: $dir is up to date"
  exit 0
fi

work=$(mktemp -d "$dir/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The sources that the installed packages come from: Debian's own suites, where this system gets its
# packages.
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
keys=/usr/share/keyrings/debian-archive-keyring.gpg
apt-get indextargets --format "deb-src [signed-by=$keys] \$(SITE) \$(RELEASE) main" \
  'Created-By: Packages' 'Component: main' |
  grep -E " $suite(-updates|-security)? main\$" | sort -u >"$work/sources.list" || {
  echo "static-libraries: apt has no source of Debian's suite $suite; see sources.list(5)" >&2
  exit 1
}
mkdir -p "$work/lists/partial" "$work/source"
call_apt() {
  # The user _apt, as which apt downloads, may not write to this directory.
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o APT::Sandbox::User=root "$@"
}
call_apt update
while read -r package; do
  (cd "$work/source" && call_apt source "$package" >/dev/null)
done <<<"${wanted%$'\n'}"

# compile NAME DIR-OF-PATHS FLAG... -- SOURCE...: makes lib<NAME>.a; paths in it are relative.
compile() {
  local name=$1 base=$2 options=() object
  shift 2
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  mkdir "$work/$name"
  for source in "$@"; do
    object=$work/$name/$(basename "${source%.*}").o
    (cd "$base" && g++ "${flags[@]}" -ffile-prefix-map="$base"= "${options[@]}" -c "$source" -o "$object")
  done
  rm -f "$dir/lib$name.a"
  ar rcsD "$dir/lib$name.a" "$work/$name"/*.o
}

cd "$work/source"
fmt=$(echo "$PWD"/fmtlib-*/) spdlog=$(echo "$PWD"/spdlog-*/)
prometheus=$(echo "$PWD"/prometheus-cpp-*/) httplib=$(echo "$PWD"/cpp-httplib-*/)
compile fmt "$fmt" -Iinclude -- src/format.cc src/os.cc
compile spdlog "$spdlog" -Iinclude -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -- \
  src/async.cpp src/cfg.cpp src/color_sinks.cpp src/file_sinks.cpp src/spdlog.cpp src/stdout_sinks.cpp
(cd "$prometheus/core" && find src -name '*.cc' | LC_ALL=C sort) >"$work/prometheus.list"
mapfile -t sources <"$work/prometheus.list"
printf '#pragma once\n#define PROMETHEUS_CPP_CORE_EXPORT\n' >"$work/core_export.h"
mkdir -p "$work/include/prometheus/detail"
mv "$work/core_export.h" "$work/include/prometheus/detail/"
compile prometheus-cpp-core "$prometheus/core" -Iinclude -I"$work/include" -- "${sources[@]}"
python3 "$httplib/split.py" --out "$work/split" >/dev/null
compile cpp-httplib "$work/split" -DCPPHTTPLIB_USE_POLL -- httplib.cc
# Types depend on the macros: these are the ones with which Debian's library is used.
read -ra macros < <(pkg-config --cflags cpp-httplib)
compile cpp-httplib-tls "$work/split" "${macros[@]}" -- httplib.cc

printf '%s' "$made" >"$dir/versions"
rm -rf "$dir/licenses"
mkdir "$dir/licenses"
for package in "${packages[@]}"; do
  cp "$work/source/${package%%:*}"-*/debian/copyright "$dir/licenses/${package%%:*}"
done
echo "static-libraries: $(cd "$dir" && echo lib*.a)"
