#!/usr/bin/env bash
# Tests alignd on kernels with several NUMA nodes: boots emulated machines with cgroup v2, containerd
# and runc. Needs neither root nor /dev/kvm; uses /dev/kvm where it works. The guests have no disk and
# no network.
#   scripts/numa-guest.sh missing               prints what this machine lacks, one item per line
#   scripts/numa-guest.sh run [BIN]             tests/guest/checks.sh; the cases of tests/e2e_node that
#                                               have "ci"; tests/guest/systemd.sh
#   scripts/numa-guest.sh cases [BIN [GUEST...]]
#                                               all cases of tests/e2e_node that a real runtime can run,
#                                               on all guests or on these: smt, one-cache, four-nodes,
#                                               pages. Without /dev/kvm it takes hours. CASES="cpu_*"
#                                               selects cases by name.
# BIN has alignd, alignctl, alignsim and tests/e2e_node_test (build/gcc).
# Prints the results in the Test Anything Protocol, and after a failure the guest's whole console.
# Both are kept in build/guest. Exit status 0: every check passed. A guest that still runs after
# GUEST_SECONDS (run: 1800; cases: 14400) is killed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
work=build/guest
kernel=$work/kernel
# On a busy host the guest's CPUs stop for long times: the kernel must not report that as a fault.
# Self-tests of unused ciphers are switched off to boot faster.
kernel_options="nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable cryptomgr.notests"
# One host thread emulates all CPUs: with several threads, idle guest CPUs would use up the host's.
accelerator=tcg,thread=single
# On a busy host the kernel measures the emulated TSC wrongly: its time then runs up to three times too
# fast, and limits of minutes end after a part of them. The HPET's frequency is known.
emulated_clock=clocksource=hpet

missing() {
  local program file
  [ "$(uname -m)" = x86_64 ] || echo "an x86-64 CPU (programs of this machine run in the guest)"
  for program in qemu-system-x86_64 containerd ctr runc containerd-shim-runc-v2 busybox gcc strip \
    systemctl /lib/systemd/systemd; do
    command -v "$program" >/dev/null || echo "the program $program"
  done
  for file in vmlinuz overlay.ko; do
    [ -f "$kernel/$file" ] || echo "the guest's kernel ($kernel/$file)"
  done
}

pack() { # BIN
  local bin=$1 root=$work/root image target
  rm -rf "$root"
  mkdir -p "$root"/usr/lib "$root"/project/{scripts,tests/support,config} "$root"/node/containerd
  cp tests/guest/init "$root/init"
  cp "$kernel/overlay.ko" "$root/usr/lib/"
  cp -r tests/guest "$root/project/tests/"
  cp tests/support/tap.sh "$root/project/tests/support/"
  cp -r scripts/lib "$root/project/scripts/"
  cp -r config/quickstart "$root/project/config/"
  # Only what the services of the guest need of the targets that systemd knows.
  mkdir -p "$root/etc/systemd/system"
  cp tests/guest/systemd/* systemd/alignd.{service,socket} "$root/etc/systemd/system/"
  for target in basic shutdown sockets sysinit; do
    printf '[Unit]\nDefaultDependencies=no\n' >"$root/etc/systemd/system/$target.target"
  done
  # The program has the path of its tables compiled in.
  mkdir -p "$root$PWD/tests"
  cp -r tests/e2e_node "$root$PWD/tests/"
  for image in pause busybox; do
    scripts/lib/make-image.sh "$image" "$root/node/containerd/$image.tar" "localhost/$image:1"
  done
  scripts/lib/make-initramfs.sh "$work/initramfs.cpio" "$root" bash containerd ctr \
    containerd-shim-runc-v2 runc "$bin/alignd" "$bin/alignctl" "$bin/alignsim" \
    "$bin/tests/e2e_node_test" systemctl /lib/systemd/systemd
  rm -rf "$root"
}

# Whether a guest boots with this accelerator until it finds no root file system. /dev/kvm may exist
# and not work.
boots_with() {
  [ -w /dev/kvm ] || return
  # A shell of its own says to /dev/null that the emulator was aborted.
  (timeout --kill-after=1 20 qemu-system-x86_64 -M q35 -accel "$1" \
    -cpu max,vendor=GenuineIntel,l3-cache=on -smp 2 -m 512 -nodefaults -no-user-config -display none \
    -no-reboot -kernel "$kernel/vmlinuz" -append "panic=-1" || exit) </dev/null >/dev/null 2>&1
}

# describe GUEST: sets its processors, memory and NUMA nodes. A NUMA node has equally many CPUs,
# counted in the order of sockets, dies, cores and threads. Each die has its own last-level cache.
#   scenarios  the node of the recorded scenarios; systemd: the same, its first process is systemd
#   the others are those of tests/e2e_node/machines.json; the test program compares them
describe() {
  nodes=2 node_mib=8448 # the kernel keeps a part: about 8 GiB of each node remain
  interleaved=false # CPU numbers of all first threads, then of all second ones
  distances=(20)    # of each node to the later ones
  parameters=       # of the kernel
  case $1 in
    scenarios | systemd) sockets=2 dies=1 cores=14 threads=1 node_mib=1024 distances=(21) ;;
    smt) sockets=2 dies=2 cores=4 threads=2 interleaved=true ;;
    one-cache) sockets=2 dies=1 cores=4 threads=2 interleaved=true ;;
    four-nodes)
      sockets=2 dies=2 cores=3 threads=2 nodes=4 node_mib=4096
      distances=(12 20 22 22 24 12)
      # Later, no free memory may be contiguous. The serial ports: of each NUMA node, and the console.
      parameters="hugepagesz=1G hugepages=0:1 8250.nr_uarts=8"
      ;;
    pages) sockets=2 dies=1 cores=4 threads=2 parameters="hugepagesz=1G hugepages=0:1" ;;
    *)
      echo "there is no guest $1" >&2
      exit 2
      ;;
  esac
}

# A PCIe root complex and a device belong to each NUMA node: serial ports, as their driver is in the
# kernel.
# The vendor is Intel because QEMU numbers cores and caches correctly for it.
boot() { # GUEST KERNEL-PARAMETER...
  local guest=$1 cpus share options=() node other pair=0 initramfs=$work/initramfs.cpio ids=()
  shift
  describe "$guest"
  cpus=$((sockets * dies * cores * threads))
  share=$((cpus / nodes))
  for ((node = 0; node < nodes; node++)); do
    options+=(
      -object "memory-backend-ram,id=memory$node,size=${node_mib}M,reserve=off"
      -numa "node,nodeid=$node,cpus=$((share * node))-$((share * (node + 1) - 1)),memdev=memory$node"
      -device "pxb-pcie,id=root$node,bus=pcie.0,bus_nr=$((64 + 32 * node)),numa_node=$node"
      -device "pcie-root-port,id=port$node,bus=root$node,chassis=$((node + 1))"
      -chardev "null,id=null$node" -device "pci-serial,bus=port$node,chardev=null$node"
    )
  done
  for ((node = 0; node < nodes; node++)); do
    for ((other = node + 1; other < nodes; other++)); do
      options+=(-numa "dist,src=$node,dst=$other,val=${distances[pair]}")
      pair=$((pair + 1))
    done
  done
  if $interleaved; then
    mapfile -t ids < <(seq 0 2 $((cpus - 1)) && seq 1 2 $((cpus - 1)))
    scripts/lib/make-madt.sh "$work/madt.cpio" "${ids[@]}"
    cat "$work/madt.cpio" "$work/initramfs.cpio" >"$work/renumbered.cpio"
    initramfs=$work/renumbered.cpio
  fi
  timeout --kill-after=10 "$GUEST_SECONDS" qemu-system-x86_64 \
    -M q35 -accel "$accelerator" -cpu max,vendor=GenuineIntel,l3-cache=on \
    -smp "$cpus,sockets=$sockets,dies=$dies,cores=$cores,threads=$threads" \
    -m $((node_mib * nodes)) "${options[@]}" \
    -nodefaults -no-user-config -display none -no-reboot -serial stdio \
    -kernel "$kernel/vmlinuz" -initrd "$initramfs" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check $kernel_options $emulated_clock $parameters $*" </dev/null
}

# Boots the guest, and adds its results to results.tap.
check() { # GUEST KERNEL-PARAMETER...
  local status plan console=$work/console.$1.log results=$work/results.$1.tap
  echo "# --- guest $1, $accelerator"
  set +e
  boot "$@" 2>&1 | sed -u 's/\r//g' | tee "$console" |
    grep --line-buffered -aE '^(ok|not ok|1\.\.|#)' | tee "$results"
  status=${PIPESTATUS[0]}
  set -e
  cat "$results" >>"$work/results.tap"
  plan=$(sed -n 's/^1\.\.//p' "$results")
  if [ "$status" = 0 ] && ! grep -q '^not ok' "$results" && [ "${plan:-0}" -gt 0 ] &&
    [ "$(grep -c '^ok' "$results")" = "$plan" ]; then
    return
  fi
  echo "--- console of the guest $1"
  cat "$console"
  echo "---"
  case $status in
    0) [ -n "$plan" ] || echo "the guest stopped before its checks were complete" ;;
    124 | 137) echo "the guest did not stop within $GUEST_SECONDS s and was killed" ;;
    *) echo "the emulator exited with status $status" ;;
  esac
  return 1
}

prepare() { # BIN
  mkdir -p "$work"
  : >"$work/results.tap"
  pack "$1"
  if boots_with kvm; then accelerator=kvm emulated_clock=; fi
}

run() { # BIN
  local status=0
  GUEST_SECONDS=${GUEST_SECONDS:-1800}
  prepare "$1"
  check scenarios || status=1
  check smt checks=cases only_ci=yes || status=1
  check four-nodes checks=cases only_ci=yes || status=1
  check systemd checks=systemd systemd.log_level=emerg systemd.show_status=no || status=1
  return $status
}

cases() { # BIN GUEST...
  local status=0 guest
  GUEST_SECONDS=${GUEST_SECONDS:-14400}
  prepare "$1"
  shift
  for guest in "$@"; do check "$guest" checks=cases ${CASES:+"filter=$CASES"} || status=1; done
  echo "# $(grep -c '^ok' "$work/results.tap") cases passed, $(grep -c '^not ok' "$work/results.tap") failed"
  return $status
}

case ${1:-} in
  missing) missing ;;
  run) run "${2:-build/gcc}" ;;
  cases)
    bin=${2:-build/gcc}
    shift $(($# < 2 ? $# : 2))
    [ $# -gt 0 ] || set -- smt one-cache four-nodes pages
    cases "$bin" "$@"
    ;;
  *)
    sed -n '2,18p' "$0" >&2
    exit 2
    ;;
esac
