# Runs in the sandbox of alignd.service, and says what it may do.
# shellcheck shell=bash

# attempt WHAT COMMAND...
attempt() {
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then echo "probe: $what: allowed"; else echo "probe: $what: denied"; fi
}
writes() { ( : >"$1" ) && rm -f "$1"; }

attempt "write below /usr" writes /usr/alignd-probe
attempt "write below /etc" writes /etc/alignd-probe
attempt "write below /var" writes /var/lib/alignd-probe
attempt "write to /proc/sys" sh -c 'cat /proc/sys/kernel/domainname >/proc/sys/kernel/domainname'
# Where loading is permitted, the kernel refuses this file for another reason.
# shellcheck disable=SC2016  # expanded by the inner shell
attempt "load a kernel module" sh -c '! busybox insmod /test/probe.sh 2>&1 | grep -q "not permitted"'
attempt "mount a file system" sh -c 'mount -t tmpfs tmpfs /test/mount && umount /test/mount'
attempt "make a namespace" unshare --uts true
attempt "make a device node" sh -c 'mknod /run/alignd/probe c 1 3 && rm /run/alignd/probe'
attempt "set the host name" sh -c 'busybox hostname "$(busybox hostname)"'
# clock_settime with an invalid time: where it is permitted, the error is not EPERM (1).
# shellcheck disable=SC2016
attempt "set the clock" perl -e '$time = pack("qq", 0, -1); syscall(227, 0, $time); exit($! == 1 ? 1 : 0)'
attempt "open a netlink socket" ip link show
attempt "see files of /root" test -e /root/alignd-probe
attempt "see devices" test -e /dev/alignd-probe
attempt "write to /var/lib/alignd" writes /var/lib/alignd/probe
attempt "write to /run/alignd" writes /run/alignd/probe
group=$(find /sys/fs/cgroup -path '*kubepods*' -name cpuset.cpus | head -n 1)
# shellcheck disable=SC2016  # expanded by the inner shell
attempt "write to a cgroup" sh -c 'cat "$0" >"$0"' "$group"
attempt "connect to the runtime" perl -MIO::Socket::UNIX -e \
  'IO::Socket::UNIX->new(Peer => "/run/containerd/containerd.sock") or exit 1'
attempt "listen on the loopback address" perl -MIO::Socket::INET -e \
  'IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1) or exit 1'
