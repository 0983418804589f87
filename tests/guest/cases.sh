#!/usr/bin/env bash
# Kubernetes' node tests (tests/e2e_node) on this machine, with a real containerd: the program
# e2e_node_test prints the results in the Test Anything Protocol. Parameters of the kernel, which are
# variables here:
#   only_ci=yes    only the cases that every run of CI has
#   filter=GLOBS   only these cases: "cpu_*:memory_*"
set -uo pipefail
cd "$(dirname "$0")" || exit 1

# shellcheck source=tests/guest/node.sh
. ./node.sh

# The devices of the cases are simulated; that the machine has PCI devices on each NUMA node is not.
for directory in /sys/devices/system/node/node[0-9]*; do
  number=${directory##*node}
  grep -qx "$number" /sys/bus/pci/devices/*/numa_node || give_up "PCI device on node $number" /dev/null
done
export DISABLE_HUGETLB=false
start_containerd
note "containerd is ready"
options=()
[ "${only_ci:-}" = "" ] || options+=(--only-ci)
[ "${filter:-}" = "" ] || options+=("--gtest_filter=Tables/NodeSuites.Holds/${filter//:/:Tables\/NodeSuites.Holds\/}")
e2e_node_test "--runtime=$node/containerd/containerd.sock" --alignd=/usr/bin/alignd "${options[@]}"
status=$?
note "e2e_node_test has ended with status $status"
