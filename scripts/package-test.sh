#!/usr/bin/env bash
# Tests the Debian packages and the container image under a real systemd: installs, upgrades, removes and
# purges them on a Debian 12 with systemd, containerd and running containers, and checks the units on it.
# The system is booted in namespaces of its own, on a copy of its files that is dropped afterwards. It has
# no network.
#   scripts/package-test.sh missing             prints what this machine lacks for it, one per line
#   scripts/package-test.sh prepare PACKAGES    makes the system's files in build/package-root with
#                                               debootstrap (about 600 MB, a few minutes, once)
#   scripts/package-test.sh run PACKAGES BIN    PACKAGES: directory of the .deb files
#                                               (build/gcc/packages); BIN: directory of alignsim
# Prints the results in the Test Anything Protocol. Exit status 0: every check passed; 77: skipped,
# something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
root=$PWD/build/package-root
work=$PWD/build/package-test

missing() {
  local program
  [ "$(id -u)" = 0 ] || echo "root privileges"
  for program in unshare nsenter pivot_root mount dpkg-deb gcc busybox; do
    command -v "$program" >/dev/null || echo "the program $program"
  done
  /usr/bin/python3 -c 'import yaml' 2>/dev/null || echo "python3-yaml"
  grep -qw overlay /proc/filesystems || modprobe -q overlay || echo "the overlay file system"
  [ "$(nproc --all)" -ge 2 ] || echo "a second CPU"
  if [ ! -e "$root/etc/debian_version" ]; then
    echo "the system's files (scripts/package-test.sh prepare build/gcc/packages)"
  fi
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    grep -qw cpuset /sys/fs/cgroup/cgroup.controllers || echo "the cgroup controller cpuset"
  elif [ ! -w /sys/fs/cgroup/cpuset ]; then
    echo "the permission to create cgroups"
  fi
}

# The system has what the packages depend on.
prepare() { # PACKAGES
  local include=systemd,systemd-sysv,dbus,containerd,runc,busybox-static,procps,iproute2,curl
  local mirror  # where this system gets its packages
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' \
    'Release: bookworm' | head -n 1)
  [ -n "$mirror" ] || { echo "apt has no source of Debian's suite bookworm" >&2; exit 1; }
  command -v debootstrap >/dev/null || { echo "debootstrap is missing: install it" >&2; exit 1; }
  mkdir -p "$(dirname "$root")"
  rm -rf --one-file-system "$root" "$root.new"
  debootstrap --variant=minbase --include="$include" bookworm "$root.new" "$mirror"
  install_dependencies "$1"
  mv "$root.new" "$root"
}

# Only apt finds packages by what they provide.
install_dependencies() { # PACKAGES
  local names
  names=$(dpkg-deb -f "$1"/alignd_*.deb Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g')
  chroot "$root.new" apt-get -qq update
  # shellcheck disable=SC2086  # several names
  chroot "$root.new" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $names
  chroot "$root.new" apt-get clean
}

# What the test adds to the system's files: the packages, also with a higher version, and the tools.
furnish() { # PACKAGES BIN TOP
  local top=$3 image unit next
  mkdir -p "$top/test/packages" "$top/etc/containerd" "$top/var/lib/containerd"
  cp "$1"/*.deb "$top/test/packages/"
  next=$work/next
  dpkg-deb -R "$1"/alignd_*.deb "$next"
  sed -i 's/^Version: .*/&.1/' "$next/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip -b "$next" "$top/test/packages/next.deb" >/dev/null
  cp tests/packages/*.sh tests/support/tap.sh "$2/alignsim" "$top/test/"
  for image in pause busybox; do
    scripts/lib/make-image.sh "$image" "$top/test/$image.tar" "localhost/$image:1"
  done
  cat >"$top/etc/containerd/config.toml" <<'TOML'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Lowering an OOM score needs CAP_SYS_RESOURCE, which this machine may lack.
  restrict_oom_score_adj = true
TOML
  # Pods on the host's network get these files.
  echo "127.0.0.1 localhost node" >"$top/etc/hosts"
  echo node >"$top/etc/hostname"
  : >"$top/etc/resolv.conf"
  # No network and nothing to clean: what would only take time.
  for unit in apt-daily.timer apt-daily-upgrade.timer systemd-timesyncd.service e2scrub_reap.service; do
    mkdir -p "$top/etc/systemd/system"
    ln -sf /dev/null "$top/etc/systemd/system/$unit"
  done
}

# Images as scripts/image.sh makes them, of the packages' programs: one, the next version, and one whose
# daemon does not start. And the pods of the manifests, as arguments of ctr.
furnish_images() { # PACKAGES TOP
  local from=$work/image-from kind
  mkdir -p "$from"/{bin,systemd,config}
  dpkg-deb -x "$1"/alignd_*.deb "$work/unpacked"
  cp "$work"/unpacked/usr/bin/{alignd,alignctl,alignd-events,alignd-extender} "$from/bin/"
  cp systemd/alignd.{service,socket} "$from/systemd/"
  cp config/kubelet-config.yaml "$from/config/"
  for kind in first next broken; do
    case $kind in
      next) echo >>"$from/bin/alignctl" ;; # other bytes, the same program
      broken) printf '#!/bin/sh\n[ "$1" = --version ]\n' >"$from/bin/alignd" ;;
    esac
    GZIP_LEVEL=1 scripts/image.sh "$from" "$2/test/image-$kind.tar" "localhost/alignd:$kind"
  done
  for kind in install remove; do
    /usr/bin/python3 tests/kubernetes/pod_as_ctr.py config/kubernetes/alignd.yaml "alignd-$kind" \
      >"$2/test/$kind.args"
  done
}

# The cgroup hierarchies of this machine: type, path and options of each mount.
hierarchies() { awk '$3 ~ /^cgroup2?$/ { print $3, $2, $4 }' /proc/mounts; }

# Moves this process to a new cgroup in every hierarchy.
enter_cgroup() { # NAME
  local path group
  hierarchies | while read -r _ path _; do
    group=$path/$1
    mkdir -p "$group"
    if [ -f "$path/cpuset.cpus" ] && [ ! -s "$group/cpuset.cpus" ]; then
      cat "$path/cpuset.cpus" >"$group/cpuset.cpus"
      cat "$path/cpuset.mems" >"$group/cpuset.mems"
    fi
    echo "$2" >"$group/cgroup.procs"
  done
}

remove_cgroup() { # NAME
  local path tries
  hierarchies | while read -r _ path _; do
    for ((tries = 0; tries < 50; tries++)); do
      [ -d "$path/$1" ] || break
      find "$path/$1" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
  done
}

# In the new namespaces: makes the system's files this process's root, and starts systemd.
boot() {
  local device type path options
  mount --make-rprivate /
  mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
  cd "$work/root"
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t tmpfs -o mode=755 tmpfs dev
  for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
  done
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
  ln -s pts/ptmx dev/ptmx
  mount -t tmpfs tmpfs dev/shm
  mount -t tmpfs -o mode=755 tmpfs run
  mount -t tmpfs tmpfs var/lib/containerd # an overlay cannot have its layers in an overlay
  [ -f /sys/fs/cgroup/cgroup.controllers ] || mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
  hierarchies >"$work/hierarchies"
  while read -r type path options; do
    options=$(tr , '\n' <<<"$options" | sed -E '/^(rw|ro|nosuid|nodev|noexec|relatime)$/d' | paste -s -d ,)
    mkdir -p ".$path"
    mount -t "$type" ${options:+-o "$options"} "$type" ".$path"
  done <"$work/hierarchies"
  mkdir -p .outside
  pivot_root . .outside
  umount -l /.outside
  exec env -i container=alignd-package-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
}

# Runs a command in the booted system.
inside() { nsenter --target "$init" --all -- setsid --wait env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }

run() { # PACKAGES BIN
  local status=0 what name=alignd-package-test.$$ tries plan
  what=$(missing | paste -s -d ';' | sed 's/;/; /g')
  if [ -n "$what" ]; then
    echo "1..0 # SKIP missing: $what"
    exit 77
  fi
  rm -rf --one-file-system "$work"
  mkdir -p "$work"/{upper,overlay,root}
  furnish "$1" "$2" "$work/upper"
  furnish_images "$1" "$work/upper"
  (
    enter_cgroup "$name" "$BASHPID"
    exec unshare --mount --pid --fork --uts --ipc --net --cgroup --kill-child=KILL \
      bash "$0" boot </dev/null
  ) >"$work/boot.log" 2>&1 &
  outer=$!
  trap 'exec 2>/dev/null; kill -KILL "$outer" 2>/dev/null || true; wait 2>/dev/null || true; remove_cgroup '"$name" EXIT
  for ((tries = 0; tries < 600; tries++)); do
    # Before its root is changed, it sees the systemd of this machine, if there is one.
    init=$(pgrep -P "$outer" || true)
    if [ -n "$init" ] && inside sh -c 'test -e /test/checks.sh && systemctl is-system-running --wait' >"$work/booted" 2>/dev/null; then break; fi
    # Degraded: a unit of the system failed, which the checks will show if it matters.
    if grep -q degraded "$work/booted" 2>/dev/null; then break; fi
    kill -0 "$outer" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$init" ] || { echo "the system did not boot:"; cat "$work/boot.log"; exit 1; }
  inside bash /test/checks.sh >"$work/results.tap" 2>&1 || status=$?
  cat "$work/results.tap"
  plan=$(sed -n 's/^1\.\.//p' "$work/results.tap")
  if [ "$status" = 0 ] && ! grep -q '^not ok' "$work/results.tap" && [ -n "$plan" ] &&
    [ "$(grep -c '^ok' "$work/results.tap")" = "$plan" ]; then
    return
  fi
  echo "--- journal of alignd and systemd's failures"
  cat "$work/boot.log"
  inside journalctl --no-pager -u 'alignd*' -p debug -n 80 || true
  inside systemctl --no-pager --failed || true
  return 1
}

case ${1:-} in
  missing) missing ;;
  prepare) prepare "${2:-build/gcc/packages}" ;;
  run) run "$(realpath "${2:-build/gcc/packages}")" "$(realpath "${3:-build/gcc}")" ;;
  boot) boot ;;
  *)
    sed -n '2,15p' "$0" >&2
    exit 2
    ;;
esac
