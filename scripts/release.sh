#!/usr/bin/env bash
# Makes what a release consists of: the Debian packages, the static programs as an archive for any
# x86-64 Linux, the container image with them, and their checksums.
#   scripts/release.sh [OUT]          writes OUT (default: build/release/files); builds in build/release
#   scripts/release.sh verify [OUT]   checks the checksums, and runs the static programs in a directory
#                                     that has nothing else (needs root, and the program openssl)
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
programs=(alignd alignctl alignd-events alignd-extender)

fail() {
  echo "release: $1" >&2
  exit 1
}

compile() {
  local launcher=() commit
  # The programs name it: without it, the same source would give other bytes.
  commit=${ALIGND_COMMIT:-$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || true)}
  [ -n "$commit" ] || fail "the commit is not known; give it as ALIGND_COMMIT"
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  mkdir -p "$libraries"
  scripts/lib/static-libraries.sh "$libraries"
  cmake -G Ninja -S . -B "$build" -DCMAKE_CXX_COMPILER=g++ "${launcher[@]}" -DALIGND_TESTS=OFF \
    -DALIGND_BENCH=OFF -DALIGND_COMMIT="$commit" -DALIGND_STATIC=ON -DALIGND_STATIC_LIBRARIES="$(realpath "$libraries")" >/dev/null
  ninja -C "$build" -j "${JOBS:-$(nproc)}" "${programs[@]}" reference "${programs[@]/%/-static}"
}

# The licences of what is linked in: those of Debian's packages.
licenses() { # DIR
  local package
  for package in libgrpc++-dev libprotobuf-dev libabsl-dev zlib1g-dev libnghttp2-dev \
    libyaml-cpp-dev libdbus-1-dev nlohmann-json3-dev libcli11-dev libstdc++-12-dev \
    libc6-dev libssl-dev libbrotli-dev libhwloc-dev; do
    cp "/usr/share/doc/$package/copyright" "$1/$package" || fail "the licence of $package is missing"
  done
  cp "$libraries"/licenses/* "$1/"
}

archive() { # OUT
  local top=$build/$name program
  rm -rf "$top"
  mkdir -p "$top"/{bin,systemd,config,licenses}
  for program in "${programs[@]}"; do
    cp "$build/static/$program" "$top/bin/"
    strip --strip-all "$top/bin/$program"
  done
  cp systemd/alignd{.service,.socket,-events.service,-extender.service} "$top/systemd/"
  cp config/kubelet-config.yaml "$top/config/"
  cp -r config/monitoring config/kubernetes config/scheduler docs LICENSE README.md SECURITY.md CHANGELOG.md "$top/"
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
  local name_of program
  (cd "$1" && sha256sum --check --quiet SHA256SUMS) || fail "the checksums differ"
  command -v openssl >/dev/null || fail "the program openssl is missing: install openssl"
  chroot=$(command -v chroot)
  root=$(mktemp -d)
  background=()
  trap 'kill "${background[@]}" 2>/dev/null || true; wait; rm -rf "$root"' EXIT
  tar -C "$root" --strip-components=2 -xzf "$1/$name.tar.gz" "$name/bin"
  cp config/quickstart/{node.json,exclusive-pod.yaml,kubelet-config.yaml} "$root/"
  for name_of in alignd:--runtime-endpoint alignctl:simulate alignd-events:--topology alignd-extender:--nodes-per-pod; do
    program=${name_of%%:*}
    [[ "$(in_root "/$program" --version)" == "$program $version (commit "*")" ]] || fail "$program --version"
    [[ "$(in_root "/$program" --help)" == *"${name_of#*:}"* ]] || fail "$program --help"
  done
  in_root /alignctl simulate --node /node.json --config /kubelet-config.yaml /exclusive-pod.yaml ||
    fail "alignctl simulate"
  serve || fail "alignd does not serve: $(cat "$root/alignd.log")"
  report || fail "alignd-events does not say that the API server is away: $(cat "$root/alignd-events.log")"
  extend HTTP || fail "alignd-extender does not answer: $(cat "$root/alignd-extender.log")"
  extend HTTPS --tls-cert /cert.pem --tls-key /key.pem ||
    fail "alignd-extender does not answer over TLS: $(cat "$root/alignd-extender.log")"
  echo "release: the static programs run alone"
}

in_root() { env -i "$chroot" "$root" "$@"; }

# start PROGRAM ARGUMENT...: in the background; its log is PROGRAM.log, its process id `pid`.
start() {
  local enter=("$chroot" "$root")
  # To call the API server, it needs /proc: in a namespace of its own.
  if [ "$1" = alignd-events ]; then
    # shellcheck disable=SC2016  # the shell inside has these arguments
    enter=(unshare --mount sh -c 'mount --bind /proc "$1/proc" && exec "$0" "$@"' "$chroot" "$root")
  fi
  # Not in_root: the process would be a shell.
  env -i "${enter[@]}" "/$1" "${@:2}" >"$root/$1.log" 2>&1 </dev/null &
  pid=$!
  background+=("$pid")
}

# stop PROGRAM: what was started last. It ends by itself, with status 0, after a signal.
stop() {
  unset 'background[-1]'
  kill "$pid"
  wait "$pid" || fail "$1 did not end well after SIGTERM: status $?"
}

# wait_for PROGRAM TEXT: until its log has the text; fails if it ends, or after 30 s.
wait_for() {
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    if grep -q -- "$2" "$root/$1.log"; then return 0; fi
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# alignd, with a simulated runtime outside.
serve() {
  mkdir "$root/run"
  "$alignsim" runtime --listen "$root/run/runtime.sock" >"$root/runtime.log" 2>&1 </dev/null &
  background+=($!)
  start alignd --node /node.json --config /kubelet-config.yaml --state-dir /state \
    --listen /run/alignd.sock --runtime-endpoint /run/runtime.sock --metrics-address 127.0.0.1:0
  wait_for alignd 'ready:' || return 1
  # The simulated runtime has no images: it pulls them.
  sed 's/imagePullPolicy: Never/imagePullPolicy: IfNotPresent/' config/quickstart/exclusive-pod.yaml \
    >"$root/pulled-pod.yaml"
  "$alignsim" kubelet --cri "$root/run/alignd.sock" run "$root/pulled-pod.yaml" &&
    in_root /alignctl status --socket /run/control.sock
}

# alignd-events, of this alignd, at a port on which nothing listens.
report() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$root/key.pem" -out "$root/cert.pem" 2>/dev/null || return 1
  cat >"$root/kubeconfig" <<'EOF'
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: cert.pem}}]
users: [{name: u, user: {token: t}}]
EOF
  mkdir "$root/proc"
  start alignd-events --kubeconfig /kubeconfig --control-socket unix:///run/control.sock \
    --node-name worker --topology
  wait_for alignd-events 'TopologyNotPublished: .*no answer of the API server at 127.0.0.1 port 1' && stop alignd-events
}

# extend HTTP|HTTPS FLAG...: alignd-extender of one node's file lets a pod through to this node.
extend() {
  local pod request answer port
  pod='{"metadata":{"name":"a","namespace":"b","uid":"c"},"spec":{"containers":[{"name":"app","image":"i",
"resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}]}}'
  pod="{\"Pod\":$pod,\"NodeNames\":[\"node\"]}"
  request=$(printf 'POST /filter HTTP/1.1\r\nHost: extender\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
    "${#pod}" "$pod")
  start alignd-extender --nodes /node.json --config /kubelet-config.yaml --listen 127.0.0.1:0 "${@:2}"
  wait_for alignd-extender '1 node known' && wait_for alignd-extender "serves $1 at" || return 1
  port=$(sed -n "s/.*serves $1 at 127\.0\.0\.1:\([0-9]*\).*/\1/p" "$root/alignd-extender.log")
  if [ "$1" = HTTPS ]; then
    answer=$(openssl s_client -quiet -verify_return_error -CAfile "$root/cert.pem" \
      -connect "127.0.0.1:$port" <<<"$request" 2>/dev/null) || return 1
  else
    exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf '%s' "$request" >&3
    answer=$(timeout 30 cat <&3) || return 1
    exec 3>&-
  fi
  echo "alignd-extender over $1: ${answer##*$'\n'}"
  [[ "$answer" == *'"NodeNames":["node"]'* ]] && stop alignd-extender
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
