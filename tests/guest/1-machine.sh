# The machine is the node of the recorded scenarios, also for alignd.
# shellcheck shell=bash disable=SC2086,SC2154  # variables of node.sh

expect "NUMA node 0 has CPUs 0-13" 0-13 "$(cat /sys/devices/system/node/node0/cpulist)"
expect "NUMA node 1 has CPUs 14-27" 14-27 "$(cat /sys/devices/system/node/node1/cpulist)"
expect "cgroup v2 controls CPUs and memory nodes" 1 \
  "$(grep -cw cpuset /sys/fs/cgroup/cgroup.controllers)"

# cpus_and_distances FILE: of a node in JSON; the amounts of memory differ.
cpus_and_distances() {
  tr -d ' \n' <"$1" | grep -oE '"cpus":\[(\[[0-9,]*\],?)*\]|"distances":\[[0-9,]*\]'
}
alignctl topology -o json >$node/machine.json
expect "alignctl topology: the recorded sockets, cores, NUMA nodes and distances" \
  "$(cpus_and_distances ../../config/quickstart/node.json)" \
  "$(cpus_and_distances $node/machine.json)"

start_containerd
note "containerd is ready"
start_alignd best-effort
start_devices
await_devices
note "alignd is ready and has the devices"
