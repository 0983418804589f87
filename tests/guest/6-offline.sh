# CPUs that go offline and come back on a real kernel, with containers on them.
# shellcheck shell=bash disable=SC2086,SC2154  # variables of node.sh

# online CPU 0|1
online() { echo "$2" >/sys/devices/system/cpu/cpu$1/online; }
# What alignd has set, not only what the kernel leaves of it.
set_of() { cgroup "$1" cpuset.cpus; }
reported() { alignctl status --socket $node/control.sock 2>&1; }
conditions() { reported | grep -c CPUOffline || :; }
state_is_as_before() { cmp -s $state/cpu_manager_state $node/cpu_manager_state.before && echo yes; }

kill_alignd
start_alignd best-effort
pod offline-own 77777777-1111-4444-4444-555555555555 'cpu: 3, memory: 100Mi'
pod offline-pool 77777777-2222-4444-4444-555555555555
starts offline-own offline-pool
own=$(set_of offline-own)
pool=$(set_of offline-pool)
first=${own%%-*}
last=${own##*-}
note "offline-own has CPUs $own, offline-pool $pool"
expect "offline-own has three CPUs in a row" $((first + 2)) "$last"
expect "CPU 27 is in the shared pool" 27 "${pool##*-}"
cp $state/cpu_manager_state $node/cpu_manager_state.before

online "$last" 0
online 27 0
eventually "offline-own: runs on its other CPUs" "$first-$((last - 1))" set_of offline-own
expect "offline-own: the kernel has the same" "$first-$((last - 1))" "$(cpus_of offline-own)"
eventually "offline-pool: left CPU 27" "${pool%27}26" set_of offline-pool
expect_part "alignctl status names the container" \
  "CPUs $last of its CPUs $own are offline: it runs on CPUs $first-$((last - 1))" "$(reported)"
pod offline-next 77777777-3333-4444-4444-555555555555 'cpu: 2, memory: 100Mi'
starts offline-next
note "offline-next has CPUs $(set_of offline-next)"
remove offline-next
eventually "the state files are as before" yes state_is_as_before

kill_alignd
start_alignd best-effort
await $node/alignd.log "of its CPUs $own are offline"
expect_part "after a restart, alignd knows the CPUs" "CPUs $last of its CPUs $own are offline" \
  "$(reported)"
expect "after a restart, offline-own runs on its other CPUs" "$first-$((last - 1))" \
  "$(cpus_of offline-own)"
expect "after a restart, the state files are as before" yes "$(state_is_as_before)"

for ((cpu = first; cpu < last; cpu++)); do online $cpu 0; done
eventually "offline-own: without a CPU of its own, it runs in the shared pool" "${pool%27}26" \
  set_of offline-own
for ((cpu = first; cpu <= last; cpu++)); do online $cpu 1; done
online 27 1
eventually "offline-own: has its CPUs again" "$own" set_of offline-own
expect "offline-own: the kernel has the same again" "$own" "$(cpus_of offline-own)"
eventually "offline-pool: has CPU 27 again" "$pool" set_of offline-pool
eventually "the condition has ended" 0 conditions
remove offline-own offline-pool
