#!/usr/bin/env bash
# Makes what a release consists of: the Debian packages, the static programs as an archive for any
# x86-64 Linux, the container image with them, and their checksums.
#   scripts/release.sh [OUT]          writes OUT (default: build/release/files); builds in build/release
#   scripts/release.sh verify [OUT]   checks the checksums, and runs the static programs in a directory
#                                     that has nothing else (needs root)
# The same source gives the same bytes, in any directory; so do the static libraries that are linked.
# Environment:
#   BUILD             the build directory (default: build/release)
#   STATIC_LIBRARIES  where scripts/lib/static-libraries.sh makes libraries (default: in BUILD)
#   JOBS              number of parallel compilers (default: all CPUs)
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
build=${BUILD:-build/release}
libraries=${STATIC_LIBRARIES:-$build/static-libraries}
version=$(sed -n 's/^project(alignd VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
name=alignd-$version-linux-amd64
# The time in all files: that of the version's entry in the changelog.
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

fail() {
  echo "release: $1" >&2
  exit 1
}

compile() {
  local launcher=() commit
  # The programs name it in their log: without it, the same source would give other bytes.
  commit=${ALIGND_COMMIT:-$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || true)}
  [ -n "$commit" ] || fail "the commit is not known; give it as ALIGND_COMMIT"
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  mkdir -p "$libraries"
  scripts/lib/static-libraries.sh "$libraries"
  cmake -G Ninja -S . -B "$build" -DCMAKE_CXX_COMPILER=g++ "${launcher[@]}" -DALIGND_TESTS=OFF \
    -DALIGND_BENCH=OFF -DALIGND_COMMIT="$commit" -DALIGND_STATIC=ON -DALIGND_STATIC_LIBRARIES="$(realpath "$libraries")" >/dev/null
  ninja -C "$build" -j "${JOBS:-$(nproc)}" alignd alignctl alignd-events alignd-extender reference alignd-static alignctl-static
}

# The licences of what is linked in: those of Debian's packages.
licenses() { # DIR
  local package
  for package in libgrpc++-dev libgrpc-dev libprotobuf-dev libabsl-dev libc-ares-dev libre2-dev \
    zlib1g-dev libnghttp2-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libstdc++-12-dev libc6-dev; do
    [ ! -f "/usr/share/doc/$package/copyright" ] || cp "/usr/share/doc/$package/copyright" "$1/$package"
  done
  cp "$libraries"/licenses/* "$1/"
}

archive() { # OUT
  local top=$build/$name program
  rm -rf "$top"
  mkdir -p "$top"/{bin,systemd,config,licenses}
  for program in alignd alignctl; do
    cp "$build/static/$program" "$top/bin/"
    strip --strip-all "$top/bin/$program"
  done
  cp systemd/alignd.service systemd/alignd.socket "$top/systemd/"
  cp config/kubelet-config.yaml "$top/config/"
  cp -r config/monitoring config/kubernetes docs LICENSE README.md SECURITY.md CHANGELOG.md "$top/"
  licenses "$top/licenses"
  chmod -R u=rwX,go=rX "$top"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
    -C "$build" -cf - "$name" | gzip -9n >"$1/$name.tar.gz"
}

make_release() { # OUT
  mkdir -p "$1"
  rm -f "$1"/alignd_*.deb "$1"/alignd-kubelet_*.deb "$1"/alignd-*.tar.gz "$1"/alignd-*.tar "$1"/SHA256SUMS
  rm -rf "$build/packages"
  compile
  (cd "$build" && cpack -G DEB >/dev/null)
  cp "$build"/packages/*.deb "$1/"
  archive "$1"
  scripts/image.sh "$1/$name.tar.gz" "$1/alignd-$version-image-linux-amd64.tar"
  (cd "$1" && sha256sum -- *.deb *.tar.gz *.tar >SHA256SUMS)
  cat "$1/SHA256SUMS"
}

# The programs alone in a directory that is their root: no library, no /etc, no /proc, no /sys.
verify() { # OUT
  local root status=0 chroot
  (cd "$1" && sha256sum --check --quiet SHA256SUMS) || fail "the checksums differ"
  chroot=$(command -v chroot)
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  tar -C "$root" --strip-components=2 -xzf "$1/$name.tar.gz" "$name/bin"
  cp config/quickstart/{node.json,exclusive-pod.yaml,kubelet-config.yaml} "$root/"
  in_root() { env -i "$chroot" "$root" "$@"; }
  [[ "$(in_root /alignd --version)" == *"$version" ]] || fail "alignd --version"
  [[ "$(in_root /alignctl --version)" == *"$version" ]] || fail "alignctl --version"
  [[ "$(in_root /alignd --help)" == *--runtime-endpoint* ]] || fail "alignd --help"
  [[ "$(in_root /alignctl --help)" == *simulate* ]] || fail "alignctl --help"
  in_root /alignctl simulate --node /node.json --config /kubelet-config.yaml /exclusive-pod.yaml ||
    fail "alignctl simulate"
  serve "$root" || status=$?
  [ "$status" = 0 ] || fail "alignd does not serve: $(cat "$root/log")"
  echo "release: the static programs run alone"
}

# alignd in the directory, with a simulated runtime outside.
serve() { # ROOT
  local runtime daemon tries
  mkdir "$1/run"
  "$alignsim" runtime --listen "$1/run/runtime.sock" >"$1/runtime.log" 2>&1 </dev/null &
  runtime=$!
  env -i "$chroot" "$1" /alignd --node /node.json --config /kubelet-config.yaml --state-dir /state \
    --listen /run/alignd.sock --runtime-endpoint /run/runtime.sock --metrics-address 127.0.0.1:0 \
    >"$1/log" 2>&1 </dev/null &
  daemon=$!
  # shellcheck disable=SC2064  # now
  trap "kill $runtime $daemon 2>/dev/null || true; wait; rm -rf '$1'" EXIT
  for ((tries = 0; tries < 300; tries++)); do
    if grep -q 'ready:' "$1/log"; then
      # The simulated runtime has no images: it pulls them.
      sed 's/imagePullPolicy: Never/imagePullPolicy: IfNotPresent/' config/quickstart/exclusive-pod.yaml \
        >"$1/pulled-pod.yaml"
      "$alignsim" kubelet --cri "$1/run/alignd.sock" run "$1/pulled-pod.yaml" &&
        env -i "$chroot" "$1" /alignctl status --socket /run/control.sock && return
      return 1
    fi
    kill -0 "$daemon" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

case ${1:-} in
  verify)
    out=$(realpath "${2:-$build/files}")
    alignsim=$(realpath "${ALIGNSIM:-$build/alignsim}")
    [ -x "$alignsim" ] || ninja -C "$build" -j "${JOBS:-$(nproc)}" alignsim
    verify "$out"
    ;;
  -*)
    sed -n '2,12p' "$0" >&2
    exit 2
    ;;
  *)
    out=${1:-$build/files}
    mkdir -p "$out"
    make_release "$(realpath "$out")"
    ;;
esac
