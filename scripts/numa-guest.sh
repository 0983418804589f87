#!/usr/bin/env bash
# Tests alignd on a kernel with two NUMA nodes: boots an emulated machine with 28 CPUs, cgroup v2,
# containerd and runc, and runs tests/guest/checks.sh in it. Needs neither root nor /dev/kvm. The
# guest has no disk and no network.
#   scripts/numa-guest.sh missing     prints what this machine lacks for the test, one item per line
#   scripts/numa-guest.sh run [BIN]   BIN: directory of alignd, alignctl and alignsim (build/gcc)
# Prints the results in the Test Anything Protocol, and after a failure the guest's whole console.
# Both are kept in build/guest. Exit status 0: every check passed. If the guest still runs after
# GUEST_SECONDS (default: 1800), it is killed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
work=build/guest
kernel=$work/kernel
# On a busy host the guest's CPUs stop for long times: the kernel must not report that as a fault.
# Self-tests of unused ciphers are switched off to boot faster.
kernel_options="nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable cryptomgr.notests"

missing() {
  local program file
  [ "$(uname -m)" = x86_64 ] || echo "an x86-64 CPU (programs of this machine run in the guest)"
  for program in qemu-system-x86_64 containerd ctr runc containerd-shim-runc-v2 busybox gcc strip; do
    command -v "$program" >/dev/null || echo "the program $program"
  done
  for file in vmlinuz overlay.ko; do
    [ -f "$kernel/$file" ] || echo "the guest's kernel ($kernel/$file)"
  done
}

pack() { # BIN
  local bin=$1 root=$work/root image
  rm -rf "$root"
  mkdir -p "$root"/usr/lib "$root"/project/{scripts,tests/support,config} "$root"/node/containerd
  cp tests/guest/init "$root/init"
  cp "$kernel/overlay.ko" "$root/usr/lib/"
  cp -r tests/guest "$root/project/tests/"
  cp tests/support/tap.sh "$root/project/tests/support/"
  cp -r scripts/lib "$root/project/scripts/"
  cp -r config/quickstart "$root/project/config/"
  for image in pause busybox; do
    scripts/lib/make-image.sh "$image" "$root/node/containerd/$image.tar" "localhost/$image:1"
  done
  scripts/lib/make-initramfs.sh "$work/initramfs.cpio" "$root" bash containerd ctr \
    containerd-shim-runc-v2 runc "$bin/alignd" "$bin/alignctl" "$bin/alignsim"
  rm -rf "$root"
}

# The node of the recorded scenarios: 2 sockets of 14 cores without siblings, one NUMA node each.
# A PCIe root complex and a device belong to each NUMA node: serial ports, as their driver is in the
# kernel.
# One host thread emulates all CPUs: with several threads, idle guest CPUs would use up the host's.
# The vendor is Intel because QEMU numbers cores and caches correctly for it.
boot() {
  timeout --kill-after=10 "${GUEST_SECONDS:-1800}" qemu-system-x86_64 \
    -M q35 -accel tcg,thread=single -cpu max,vendor=GenuineIntel,l3-cache=on \
    -smp 28,sockets=2,cores=14,threads=1 -m 2048 \
    -object memory-backend-ram,id=memory0,size=1024M -numa node,nodeid=0,cpus=0-13,memdev=memory0 \
    -object memory-backend-ram,id=memory1,size=1024M -numa node,nodeid=1,cpus=14-27,memdev=memory1 \
    -numa dist,src=0,dst=1,val=21 \
    -device pxb-pcie,id=root0,bus=pcie.0,bus_nr=64,numa_node=0 \
    -device pxb-pcie,id=root1,bus=pcie.0,bus_nr=128,numa_node=1 \
    -device pcie-root-port,id=port0,bus=root0,chassis=1 \
    -device pcie-root-port,id=port1,bus=root1,chassis=2 \
    -chardev null,id=null0 -device pci-serial,bus=port0,chardev=null0 \
    -chardev null,id=null1 -device pci-serial,bus=port1,chardev=null1 \
    -nodefaults -no-user-config -display none -no-reboot -serial stdio \
    -kernel "$kernel/vmlinuz" -initrd "$work/initramfs.cpio" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check $kernel_options" </dev/null
}

run() { # BIN
  local status plan
  mkdir -p "$work"
  : >"$work/results.tap"
  pack "$1"
  set +e
  boot 2>&1 | sed -u 's/\r//g' | tee "$work/console.log" |
    grep --line-buffered -aE '^(ok|not ok|1\.\.|#)' | tee "$work/results.tap"
  status=${PIPESTATUS[0]}
  set -e
  plan=$(sed -n 's/^1\.\.//p' "$work/results.tap")
  if [ "$status" = 0 ] && ! grep -q '^not ok' "$work/results.tap" &&
    [ "$(grep -c '^ok' "$work/results.tap")" = "$plan" ]; then
    return
  fi
  echo "--- console of the guest"
  cat "$work/console.log"
  echo "---"
  case $status in
    0) [ -n "$plan" ] || echo "the guest stopped before its checks were complete" ;;
    124 | 137) echo "the guest did not stop within ${GUEST_SECONDS:-1800} s and was killed" ;;
    *) echo "the emulator exited with status $status" ;;
  esac
  return 1
}

case ${1:-} in
  missing) missing ;;
  run) run "${2:-build/gcc}" ;;
  *)
    sed -n '2,10p' "$0" >&2
    exit 2
    ;;
esac
