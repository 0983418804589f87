# The recorded scenario "blog-case-12-single-numa-node-2": a pod that does not fit on one
# NUMA node is refused. Topology policy single-numa-node. The scenario was recorded with scope container;
# for pods of one container, the result is the same.
# shellcheck shell=bash disable=SC2086,SC2154  # variables of node.sh

kill_alignd
start_alignd single-numa-node
await_devices
note "alignd runs with policy single-numa-node"

pod 1gpu-pod-1 d969df9f-b0ed-4ae8-9b84-da49b865ea7b 'cpu: 3, memory: 100Mi, nvidia.com/gpu: "1"'
pod 1gpu-pod-2 f21fe02b-e6e2-4d04-9a4a-9e57367fa324 'cpu: 3, memory: 100Mi, nvidia.com/gpu: "1"'
pod 2gpu-pod 08b4a90a-534a-4fc6-90c3-b57ee777071d 'memory: 100Mi, nvidia.com/gpu: "2"'

starts 1gpu-pod-1 1gpu-pod-2
expect "two pods of 3 CPUs and a GPU: cpu_manager_state is the kubelet's" \
  '{"policyName":"static","defaultCpuSet":"0,4-13,17-27","entries":{"d969df9f-b0ed-4ae8-9b84-da49b865ea7b":{"app":"1-3"},"f21fe02b-e6e2-4d04-9a4a-9e57367fa324":{"app":"14-16"}},"checksum":1065048381}' \
  "$(cpu_state)"
look_inside 1gpu-pod-1
expect "1gpu-pod-1: CPUs, memory and GPU of NUMA node 0" "1-3; 0; ${gpus[0]%:*}" \
  "$(fact Cpus_allowed_list); $(fact Mems_allowed_list); $(fact gpus)"
look_inside 1gpu-pod-2
expect "1gpu-pod-2: CPUs, memory and GPU of NUMA node 1" "14-16; 1; ${gpus[1]%:*}" \
  "$(fact Cpus_allowed_list); $(fact Mems_allowed_list); $(fact gpus)"

remove 1gpu-pod-1
after_removal='{"policyName":"static","defaultCpuSet":"0-13,17-27","entries":{"f21fe02b-e6e2-4d04-9a4a-9e57367fa324":{"app":"14-16"}},"checksum":2485662466}'
eventually "1gpu-pod-1 removed: cpu_manager_state is the kubelet's" "$after_removal" cpu_state

# One GPU is free on each NUMA node.
if run_pods 2gpu-pod; then
  fails "2gpu-pod is refused"
else
  passes "2gpu-pod is refused"
fi
note "2gpu-pod"
expect_part "2gpu-pod: the error of CreateContainer has the reason" \
  "TopologyAffinityError: Resources cannot be allocated with Topology locality" "$answer"
for numa in 0 1; do
  expect_part "2gpu-pod: the error of CreateContainer has the free resources of NUMA node $numa" \
    "NUMA node $numa: " "${answer#*Availability:}"
done
expect_part "2gpu-pod: alignctl explain shows the refusal" nvidia.com/gpu \
  "$(alignctl explain --socket $node/control.sock --limit 1 2gpu-pod 2>&1)"
expect "2gpu-pod: cpu_manager_state is unchanged" "$after_removal" "$(cpu_state)"
succeeds "the state files verify at the end" verify_state
