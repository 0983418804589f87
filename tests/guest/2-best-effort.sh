# The recorded scenario "blog-120", with a container of the shared pool beside it and a crash of
# alignd in the middle. Topology policy best-effort, scope pod.
# shellcheck shell=bash disable=SC2086,SC2154  # variables of node.sh

untouched='{"policyName":"static","defaultCpuSet":"0-27","checksum":273146150}'

pod shared 11111111-2222-3333-4444-555555555555
pod numa-batch-pod-1 6c36c7d9-d958-4e16-8156-71393653e913 'memory: 100Mi, nvidia.com/gpu: "1"'
pod numa-batch-pod-2 6abf32d1-6767-41b0-8f9b-2bf4397b2b3f \
  'cpu: 13, memory: 100Mi, nvidia.com/gpu: "2"'
pod numa-batch-pod-3 d242bd6c-bccc-4c49-a02a-e55db1325536 'cpu: 7, memory: 100Mi'
pod numa-batch-pod-4 de67789b-2b87-4d9c-a84a-1c8cbb63f64d 'cpu: 14, memory: 100Mi'
pod numa-batch-pod-5 90a16f3c-d1eb-4e78-aa7c-b0fe295e5408 'cpu: 3, memory: 100Mi'

# --- A container without requests, and one that requests a GPU and no CPUs.

starts shared numa-batch-pod-1
look_inside shared
expect "shared: may use every CPU" 0-27 "$(fact Cpus_allowed_list)"
expect "shared: may use the memory of both NUMA nodes" 0-1 "$(fact Mems_allowed_list)"
expect "shared: has no device, and cannot use a device node that it creates" /dev/nvidia-own \
  "$(fact nodes)$(fact usable)"

look_inside numa-batch-pod-1
expect "numa-batch-pod-1: is in the shared pool" 0-27 "$(fact Cpus_allowed_list)"
expect "numa-batch-pod-1: has the GPU of NUMA node 0" "${gpus[0]%:*}" "$(fact gpus)"
expect "numa-batch-pod-1: has that GPU's node only, and can use it" \
  "/dev/nvidia-own /dev/nvidia0; /dev/nvidia0" "$(fact nodes); $(fact usable | grep -o '/dev/nvidia0')"
expect "numa-batch-pod-1: cpu_manager_state is the kubelet's" "$untouched" "$(cpu_state)"

# --- 13 CPUs and both GPUs of NUMA node 1.

with_pod_2='{"policyName":"static","defaultCpuSet":"0-13,27","entries":{"6abf32d1-6767-41b0-8f9b-2bf4397b2b3f":{"app":"14-26"}},"checksum":3030913670}'
starts numa-batch-pod-2
expect "numa-batch-pod-2: cpu_manager_state is the kubelet's" "$with_pod_2" "$(cpu_state)"
look_inside numa-batch-pod-2
expect "numa-batch-pod-2: Cpus_allowed_list" 14-26 "$(fact Cpus_allowed_list)"
expect "numa-batch-pod-2: Mems_allowed_list" 1 "$(fact Mems_allowed_list)"
expect "numa-batch-pod-2: the GPUs of NUMA node 1" "${gpus[1]%:*},${gpus[2]%:*}" "$(fact gpus)"
expect "numa-batch-pod-2: has their nodes and no other" \
  "/dev/nvidia-own /dev/nvidia1 /dev/nvidia2" "$(fact nodes)"
expect_part "numa-batch-pod-2: can use them" "/dev/nvidia1 /dev/nvidia2" "$(fact usable)"
expect "numa-batch-pod-2: cpuset.cpus" 14-26 "$(cgroup numa-batch-pod-2 cpuset.cpus)"
expect "numa-batch-pod-2: cpuset.cpus.effective" 14-26 \
  "$(cgroup numa-batch-pod-2 cpuset.cpus.effective)"
expect "numa-batch-pod-2: cpuset.mems" 1 "$(cgroup numa-batch-pod-2 cpuset.mems)"
expect "numa-batch-pod-2: cpu.max has no quota" "max 100000" "$(cgroup numa-batch-pod-2 cpu.max)"
expect "numa-batch-pod-2: memory.max" 104857600 "$(cgroup numa-batch-pod-2 memory.max)"
expect_part "numa-batch-pod-2: memory_manager_state has its memory on NUMA node 1" \
  '"6abf32d1-6767-41b0-8f9b-2bf4397b2b3f":{"app":[{"numaAffinity":[1],"type":"memory","size":104857600}]}' \
  "$(memory_state)"
expect_part "numa-batch-pod-2: kubelet_internal_checkpoint has its GPUs on NUMA node 1" \
  "\"DeviceIDs\":{\"1\":[\"${gpus[1]%:*}\",\"${gpus[2]%:*}\"]}" "$(device_state)"
succeeds "the three state files verify" verify_state

for name in shared numa-batch-pod-1; do
  expect "$name: does not run on the exclusive CPUs" "0-13,27; 0-13,27" \
    "$(cpus_of $name); $(cgroup $name cpuset.cpus)"
done

# --- alignd crashes.

everything() {
  cpu_state
  memory_state
  local name
  for name in shared numa-batch-pod-1 numa-batch-pod-2; do
    echo "$(process_of $name) $(cpus_of $name) $(cgroup $name cpuset.cpus) $(cgroup $name cpuset.mems)"
  done
}
before=$(everything)
kill_alignd
expect "alignd killed: nothing changes" "$before" "$(everything)"
start_alignd best-effort
await_devices
expect "alignd restarted: nothing changes" "$before" "$(everything)"
succeeds "alignd restarted: the state files verify" verify_state
expect_part "alignd restarted: the status has the exclusive CPUs" 14-26 \
  "$(alignctl status --socket $node/control.sock 2>&1)"
note "alignd was killed and restarted"

# --- The pods are removed.

remove numa-batch-pod-1 numa-batch-pod-2
eventually "both removed: cpu_manager_state is the kubelet's" "$untouched" cpu_state
eventually "shared: has every CPU again" 0-27 cpus_of shared

# --- 7, 14 and 3 CPUs.

starts numa-batch-pod-3 numa-batch-pod-4 numa-batch-pod-5
expect "numa-batch-pod-3 to 5: cpu_manager_state is the kubelet's" \
  '{"policyName":"static","defaultCpuSet":"0,11-13","entries":{"90a16f3c-d1eb-4e78-aa7c-b0fe295e5408":{"app":"8-10"},"d242bd6c-bccc-4c49-a02a-e55db1325536":{"app":"1-7"},"de67789b-2b87-4d9c-a84a-1c8cbb63f64d":{"app":"14-27"}},"checksum":2611391005}' \
  "$(cpu_state)"
expect "numa-batch-pod-3: CPUs and memory nodes" "1-7; 0" \
  "$(cpus_of numa-batch-pod-3); $(mems_of numa-batch-pod-3)"
expect "numa-batch-pod-4: CPUs and memory nodes" "14-27; 1" \
  "$(cpus_of numa-batch-pod-4); $(mems_of numa-batch-pod-4)"
expect "numa-batch-pod-5: CPUs and memory nodes" "8-10; 0" \
  "$(cpus_of numa-batch-pod-5); $(mems_of numa-batch-pod-5)"
expect "shared: has the free CPUs" 0,11-13 "$(cpus_of shared)"
remove numa-batch-pod-3 numa-batch-pod-4 numa-batch-pod-5
eventually "all removed: cpu_manager_state is the kubelet's" "$untouched" cpu_state
eventually "shared: has every CPU again (2)" 0-27 cpus_of shared

# --- A running container is resized from 2 to 4 CPUs and back, with the calls of a kubelet.

# common_cpus LIST LIST: prints the CPUs that are in both.
common_cpus() {
  local part cpu
  declare -A first=()
  for part in ${1//,/ }; do
    for ((cpu = ${part%-*}; cpu <= ${part#*-}; cpu++)); do first[$cpu]=1; done
  done
  for part in ${2//,/ }; do
    for ((cpu = ${part%-*}; cpu <= ${part#*-}; cpu++)); do
      [ -z "${first[$cpu]:-}" ] || echo "CPU $cpu: $1 and $2"
    done
  done
}
# sample_both FIRST SECOND: prints the CPUs of both containers while $node/sampling exists. The
# container that gets CPUs must be the first: the other one has left them when it is read.
sample_both() {
  local first
  while [ -e $node/sampling ]; do
    first=$(cpus_of "$1")
    common_cpus "$first" "$(cpus_of "$2")"
  done
}
# resize_sampled FROM TO FIRST SECOND CPUS: resizes `resized`; `both` has the CPUs that both had meanwhile.
resize_sampled() {
  touch $node/sampling
  sample_both "$3" "$4" >$node/both &
  local sampler=$!
  succeeds "resized: from $1 to $2 CPUs" kubelet resize resized app "$2" --from "$1"
  eventually "resized: the containers are where they belong" "$5" both_cpus
  rm $node/sampling
  wait $sampler
  expect "resized: no CPU was in both containers" "" "$(cat $node/both)"
}
both_cpus() { echo "$(cpus_of resized); $(cpus_of shared)"; }

pod resized 77777777-2222-3333-4444-555555555555 'cpu: 2, memory: 100Mi'
starts resized
expect "resized: has two CPUs, and shared has the rest" "1-2; 0,3-27" "$(both_cpus)"
before=$(process_of resized)
resize_sampled 2 4 resized shared "1-4; 0,5-27"
look_inside resized
expect "resized: sees four CPUs" 1-4 "$(fact Cpus_allowed_list)"
expect "resized: has no quota" "max 100000" "$(cgroup resized cpu.max)"
expect_part "resized: cpu_manager_state has four CPUs" \
  '"77777777-2222-3333-4444-555555555555":{"app":"1-4"}' "$(cpu_state)"
expect_part "resized: cpu_originals has two CPUs" \
  '{"entries":{"77777777-2222-3333-4444-555555555555":{"app":"1-2"}}' "$(cat $state/cpu_originals)"
refuses "resized: gets no more CPUs than are free" kubelet resize resized app 28 --from 4
expect_part "resized: the refusal says what it has" \
  "ResizeRefused: container app of pod default/resized has 4 exclusive CPUs (1-4; 1-2 since it was created)" \
  "$output"
kill_alignd
start_alignd best-effort
await_devices
resize_sampled 4 2 shared resized "1-2; 0,3-27"
look_inside resized
expect "resized: sees two CPUs" 1-2 "$(fact Cpus_allowed_list)"
refuses "resized: keeps the CPUs with which it was created" kubelet resize resized app 1 --from 2
expect_part "resized: the refusal says so" "keeps while its pod lives those that it was created with" \
  "$output"
expect "resized: it was not restarted" "$before" "$(process_of resized)"
remove resized
eventually "resized: all removed, cpu_manager_state is the kubelet's" "$untouched" cpu_state
eventually "shared: has every CPU again (3)" 0-27 cpus_of shared

# --- A change of the configuration moves a running container from a CPU that becomes reserved.

sed 's/^kubeReserved:/reservedSystemCPUs: "0-1"\n&/' $node/config.yaml >$node/two-reserved.yaml
cp $node/config.yaml $node/one-reserved.yaml
both_cpus() { echo "$(cpus_of moved); $(cpus_of shared)"; }
# Each gets a CPU of the other: what the first one had before and after was its own meanwhile.
sample_moved() {
  local first second
  while [ -e $node/sampling ]; do
    first=$(cpus_of moved)
    second=$(cpus_of shared)
    [ "$first" != "$(cpus_of moved)" ] || common_cpus "$first" "$second"
  done
}
pod moved 88888888-2222-3333-4444-555555555555 'cpu: 2, memory: 100Mi'
starts moved
expect "moved: has two CPUs, and shared has the rest" "1-2; 0,3-27" "$(both_cpus)"
before=$(process_of moved)
control=(--socket "unix://$node/control.sock")
refuses "moved: is not moved without --may-move" \
  alignctl apply "${control[@]}" --config $node/two-reserved.yaml
expect_part "moved: the refusal names the CPU" "CPUs 1 become reserved" "$output"
expect "moved: is where it was" "1-2; 0,3-27" "$(both_cpus)"
touch $node/sampling
sample_moved >$node/both &
sampler=$!
succeeds "moved: the change is applied" \
  alignctl apply "${control[@]}" --may-move if-needed --config $node/two-reserved.yaml
await_devices
eventually "moved: the containers are where they belong" "2-3; 0-1,4-27" both_cpus
rm $node/sampling
wait $sampler
expect "moved: no CPU was in both containers" "" "$(cat $node/both)"
expect_part "moved: cpu_manager_state has its new CPUs" \
  '"88888888-2222-3333-4444-555555555555":{"app":"2-3"}' "$(cpu_state)"
look_inside moved
expect "moved: sees its new CPUs" 2-3 "$(fact Cpus_allowed_list)"
expect "moved: it was not restarted" "$before" "$(process_of moved)"
succeeds "moved: the state files can be read" verify_state
remove moved
succeeds "moved: back to one reserved CPU" \
  alignctl apply "${control[@]}" --config $node/one-reserved.yaml
await_devices
eventually "moved: all removed, cpu_manager_state is the kubelet's" "$untouched" cpu_state
eventually "shared: has every CPU again (4)" 0-27 cpus_of shared
