#!/usr/bin/env bash
# The checks in the test guest: alignd in front of a real containerd on a kernel with two NUMA nodes
# and cgroup v2. The expected CPUs, devices and state files are the kubelet's recorded results
# for these pods on such a node (tests/vectors/blog.jsonl), byte for byte.
# Prints results in the Test Anything Protocol, which scripts/numa-guest.sh reads.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

# shellcheck source=tests/guest/node.sh
. ./node.sh
for part in ./[0-9]*.sh; do
  # shellcheck source=/dev/null
  . "$part"
done
echo "1..$checks"
