#!/usr/bin/env bash
# Runs a private containerd, whose files are all in DIR. Other containerds are not touched.
#   scripts/lib/containerd.sh prepare DIR  writes its configuration, makes the images that DIR lacks
#   scripts/lib/containerd.sh start DIR    starts it in the background; its pid is in DIR/pid
#   scripts/lib/containerd.sh import DIR   loads the images localhost/pause:1, localhost/busybox:1
#   scripts/lib/containerd.sh stop DIR     stops its containers and containerd, and removes DIR
#   scripts/lib/containerd.sh missing      prints what this machine lacks for it, one item per line
# Its socket is DIR/containerd.sock. As with any containerd, the containers keep running when it is
# killed; it may be started again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
action=$1 dir=${2:-}
PATH=$PATH:/usr/sbin:/sbin

prepare() {
  mkdir -p "$dir"
  cat >"$dir/config.toml" <<TOML
version = 2
root = "$dir/root"
state = "$dir/state"

[grpc]
  address = "$dir/containerd.sock"

[ttrpc]
  address = "$dir/containerd.sock.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Lowering an OOM score needs CAP_SYS_RESOURCE, which this machine may lack.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  # By default, containerd ignores limits of huge pages.
  disable_hugetlb_controller = ${DISABLE_HUGETLB:-true}

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$dir/cni/bin"
    conf_dir = "$dir/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "${SNAPSHOTTER:-overlayfs}"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = ${SYSTEMD_CGROUP:-false}
TOML
  local image
  for image in pause busybox; do
    [ -f "$dir/$image.tar" ] || "$here/make-image.sh" "$image" "$dir/$image.tar" "localhost/$image:1"
  done
}

call_ctr() { ctr --address "$dir/containerd.sock" --namespace k8s.io "$@"; }

start() {
  local tries
  containerd --config "$dir/config.toml" </dev/null >>"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for ((tries = 0; tries < 300; tries++)); do
    if call_ctr version >/dev/null 2>&1; then return; fi
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
    sleep 0.1
  done
  echo "containerd does not answer. The end of its log:" >&2
  tail -5 "$dir/log" >&2
  return 1
}

import() {
  call_ctr images import "$dir/pause.tar" >/dev/null
  call_ctr images import "$dir/busybox.tar" >/dev/null
}

# The shims of this containerd: the processes whose command line has its socket.
shims() {
  local line
  for line in /proc/[0-9]*/cmdline; do
    if { tr '\0' ' ' <"$line"; } 2>/dev/null | grep -qF -- "-address $dir/containerd.sock "; then
      line=${line#/proc/}
      echo "${line%/cmdline}"
    fi
  done
}

# Waits until a process has ended; kills it after 3 s.
await_end() {
  local tries
  for ((tries = 0; tries < 30; tries++)); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
}

stop() {
  local task pid mount
  [ -d "$dir" ] || return 0
  for task in $(call_ctr tasks ls -q 2>/dev/null); do
    call_ctr tasks rm --force "$task" >/dev/null 2>&1 || true
  done
  if pid=$(cat "$dir/pid" 2>/dev/null) && kill "$pid" 2>/dev/null; then await_end "$pid"; fi
  for pid in $(shims); do
    kill "$pid" 2>/dev/null || true
    await_end "$pid"
  done
  awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r |
    while read -r mount; do umount --lazy "$mount"; done
  rm -rf --one-file-system "$dir"
}

missing() {
  local program
  [ "$(id -u)" = 0 ] || echo "root privileges"
  for program in containerd ctr runc containerd-shim-runc-v2 busybox gcc; do
    command -v "$program" >/dev/null || echo "the program $program"
  done
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    grep -qw cpuset /sys/fs/cgroup/cgroup.controllers || echo "the cgroup controller cpuset"
  elif [ ! -f /sys/fs/cgroup/cpuset/cpuset.cpus ]; then
    echo "the cgroup controller cpuset"
  elif [ ! -w /sys/fs/cgroup/cpuset ]; then
    echo "the permission to create cgroups"
  fi
  [ "$(nproc --all)" -ge 2 ] || echo "a second CPU"
}

case $action in
  missing) missing ;;
  prepare | start | import | stop)
    [ -n "$dir" ] || exit 2
    [ "$action" = prepare ] && mkdir -p "$dir"
    [ ! -d "$dir" ] || dir=$(cd "$dir" && pwd)
    "$action"
    ;;
  *)
    sed -n '2,9p' "$0" >&2
    exit 2
    ;;
esac
