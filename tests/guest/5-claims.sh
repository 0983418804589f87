# CPUs and memory beside devices that DRA has allocated. The devices are PCI serial ports, one on each
# NUMA node. containerd 1.6 ignores CDI names, so that the container does not get the device itself.
# shellcheck shell=bash disable=SC2034,SC2086,SC2154  # variables of node.sh

# port_on NUMA-NODE: the device node of the port there.
port_on() {
  local device
  for device in /sys/bus/pci/devices/*; do
    if [ -d "$device/tty" ] && [ "$(cat "$device/numa_node")" = "$1" ]; then ls "$device/tty"; fi
  done
}

remove 1gpu-pod-2 bystander lifted fraction kept
mkdir -p $node/cdi $node/kubelet
# As the kubelet writes it before it creates the sandboxes.
cat >$node/kubelet/dra_manager_state <<'JSON'
{"Data":"{\"ClaimInfoStateList\":[{\"ClaimUID\":\"c0\",\"ClaimName\":\"claim-0\",\"Namespace\":\"default\",\"PodUIDs\":{\"55555555-0000-4444-4444-555555555555\":{}},\"DriverState\":{\"example.com\":{\"Devices\":[{\"PoolName\":\"guest\",\"DeviceName\":\"port0\",\"RequestNames\":[\"port\"],\"CDIDeviceIDs\":[\"example.com/port=on-node-0\"]}]}}},{\"ClaimUID\":\"c1\",\"ClaimName\":\"claim-1\",\"Namespace\":\"default\",\"PodUIDs\":{\"55555555-1111-4444-4444-555555555555\":{}},\"DriverState\":{\"example.com\":{\"Devices\":[{\"PoolName\":\"guest\",\"DeviceName\":\"port1\",\"RequestNames\":[\"port\"],\"CDIDeviceIDs\":[\"example.com/port=on-node-1\"]}]}}},{\"ClaimUID\":\"c2\",\"ClaimName\":\"claim-2\",\"Namespace\":\"default\",\"PodUIDs\":{\"55555555-2222-4444-4444-555555555555\":{}},\"DriverState\":{\"example.com\":{\"Devices\":[{\"PoolName\":\"guest\",\"DeviceName\":\"port2\",\"RequestNames\":[\"port\"],\"CDIDeviceIDs\":[\"example.com/port=nowhere\"]}]}}}]}","Checksum":1280437923}
JSON
for numa in 0 1; do
  cat >$node/cdi/port$numa.yaml <<YAML
cdiVersion: 0.5.0
kind: example.com/port
devices:
- name: on-node-$numa
  containerEdits: {deviceNodes: [{path: /dev/$(port_on $numa)}]}
YAML
done
note "serial ports: $(port_on 0) on NUMA node 0, $(port_on 1) on NUMA node 1"

pod claims-0 55555555-0000-4444-4444-555555555555 'cpu: 2, memory: 100Mi'
pod claims-1 55555555-1111-4444-4444-555555555555 'cpu: 2, memory: 100Mi'
for numa in 0 1; do
  sed -i "s|^    image:|    cdiDevices: [example.com/port=on-node-$numa]\n&|" $node/claims-$numa.yaml
done

# starts_both TOPOLOGY-POLICY SCOPE WHAT CLAIMS-1 CLAIMS-0: starts the pods under a new alignd. The pods
# are to have these CPUs and NUMA nodes ("1-2; 0").
starts_both() {
  scope=$2
  kill_alignd
  start_alignd "$1" --cdi-spec-dirs $node/cdi --kubelet-dir $node/kubelet
  starts claims-1 claims-0
  expect "$1, scope $2: claims-1 $3" "$4" "$(cpus_of claims-1); $(mems_of claims-1)"
  expect "$1, scope $2: claims-0 $3" "$5" "$(cpus_of claims-0); $(mems_of claims-0)"
}

# Under this policy nothing is aligned, as under a kubelet's.
starts_both none pod "has the first free CPUs and memory" "1-2; 0" "3-4; 0"
remove claims-0 claims-1
# An emulated machine is slow: each policy once, and the strictest one with both scopes.
for policy in best-effort:container best-attainable:pod restricted:container \
  single-numa-node:container single-numa-node:pod; do
  starts_both "${policy%:*}" "${policy#*:}" "has CPUs and memory of its device's NUMA node" \
    "14-15; 1" "1-2; 0"
  remove claims-0 claims-1
done
expect_part "alignctl explain names the device and its NUMA node" \
  "example.com/guest/port1 on NUMA node 1" \
  "$(alignctl explain --socket $node/control.sock claims-1 2>&1)"

# No specification describes the device of this pod: it could be anywhere.
pod claims-2 55555555-2222-4444-4444-555555555555 'cpu: 2, memory: 100Mi'
sed -i 's|^    image:|    cdiDevices: [example.com/port=nowhere]\n&|' $node/claims-2.yaml
if run_pods claims-2; then
  fails "a claimed device without specification is refused"
else
  passes "a claimed device without specification is refused"
fi
expect_part "the refusal names it" "no CDI specification describes example.com/port=nowhere" "$answer"
remove claims-2
