# Writes of other programs to the cgroups of containers and pods: alignd repairs cpusets, and removes
# the CFS quota of pods with exclusive CPUs.
# shellcheck shell=bash disable=SC2086,SC2154  # variables of node.sh

# --- Cpusets. 1gpu-pod-2 has CPUs 14-16 and memory of NUMA node 1.

pod bystander 33333333-2222-3333-4444-555555555555
starts bystander

# repaired N: whether alignd has reported so many repairs.
repaired() { [ "$(grep -c "CpusetRepaired: " $node/alignd.log)" -ge "$1" ]; }

# disturb NAME FILE FOREIGN OWN: writes FOREIGN to the container's FILE, as another program would, and
# waits for alignd's log line. An earlier second write would belong to the same repair. If the runtime
# just updates the container, that undoes the write, and there is nothing to report: it is repeated.
repairs=0
disturb() {
  local before after tries wait
  repairs=$((repairs + 1))
  echo "$3" >"${group[$1]}/$2"
  read -r before _ </proc/uptime
  eventually "$1: $2 is $4 again after a write of $3" "$4" cgroup "$1" "$2"
  read -r after _ </proc/uptime
  note "repaired after $(((10#${after/./} - 10#${before/./}) * 10)) ms"
  for ((tries = 0; tries < 10; tries++)); do
    for ((wait = 0; wait < 25; wait++)); do repaired $repairs || sleep 0.2; done
    repaired $repairs || echo "$3" >"${group[$1]}/$2"
  done
  await $node/alignd.log "CpusetRepaired: " $repairs
}
disturb 1gpu-pod-2 cpuset.cpus 0-27 14-16
expect "1gpu-pod-2: runs on its CPUs again" 14-16 "$(cpus_of 1gpu-pod-2)"
disturb 1gpu-pod-2 cpuset.mems 0 1
expect "1gpu-pod-2: has its memory nodes again" 1 "$(mems_of 1gpu-pod-2)"
disturb bystander cpuset.cpus 14-16 0-13,17-27
expect "bystander: does not run on the exclusive CPUs" 0-13,17-27 "$(cpus_of bystander)"
expect_part "alignctl status counts the repairs" "(2 times, last seen " \
  "$(alignctl status --socket $node/control.sock 2>&1)"

# --- Quotas. The kubelet creates the pod's cgroup before its sandbox, here with half a CPU.

for parent in /sys/fs/cgroup /sys/fs/cgroup/kubepods; do
  echo "+cpu +cpuset +memory" >$parent/cgroup.subtree_control
done
declare -A pod_group

pod_with_quota() { # NAME UID LIMITS
  pod "$@"
  pod_group["$1"]=/sys/fs/cgroup/kubepods/pod$2
  mkdir -p "${pod_group[$1]}"
  echo "50000 100000" >"${pod_group[$1]}/cpu.max"
}
quota_of() { cat "${pod_group[$1]}/cpu.max"; }
times_throttled() { sed -n 's/^nr_throttled //p' "${pod_group[$1]}/cpu.stat"; }
# throttled NAME: "yes" if the pod is throttled while its container is busy for 2 s.
throttled() {
  local before
  before=$(times_throttled "$1")
  kubelet exec "$1" -- timeout 2 sh -c 'while :; do :; done' >/dev/null
  if [ "$(times_throttled "$1")" -gt "$before" ]; then echo yes; else echo no; fi
}

pod_with_quota lifted 44444444-2222-3333-4444-555555555555 'cpu: 2, memory: 100Mi'
expect "lifted: has a quota before it starts" "50000 100000" "$(quota_of lifted)"
starts lifted
expect "lifted: its pod has no quota" "max 100000" "$(quota_of lifted)"
expect "lifted: its container has no quota" "max 100000" "$(cgroup lifted cpu.max)"
expect "lifted: has its own CPUs" 1-2 "$(cpus_of lifted)"
expect "lifted: is not throttled" no "$(throttled lifted)"
echo "50000 100000" >"${pod_group[lifted]}/cpu.max" # as the kubelet does when it resizes the pod
eventually "lifted: its pod has no quota after a resize" "max 100000" quota_of lifted

pod_with_quota fraction 55555555-2222-3333-4444-555555555555 'cpu: 500m, memory: 100Mi'
starts fraction
expect "fraction: a pod of the shared pool keeps its quota" "50000 100000" "$(quota_of fraction)"
expect "fraction: its container keeps its quota" "50000 100000" "$(cgroup fraction cpu.max)"

kill_alignd
start_alignd single-numa-node --keep-pod-cpu-quota
note "alignd runs with --keep-pod-cpu-quota"
pod_with_quota kept 66666666-2222-3333-4444-555555555555 'cpu: 2, memory: 100Mi'
starts kept
expect "--keep-pod-cpu-quota: a pod with exclusive CPUs keeps its quota" "50000 100000" \
  "$(quota_of kept)"
expect "--keep-pod-cpu-quota: its container has exclusive CPUs and no quota" "max 100000; 3-4" \
  "$(cgroup kept cpu.max); $(cpus_of kept)"
expect "--keep-pod-cpu-quota: the pod is throttled" yes "$(throttled kept)"
