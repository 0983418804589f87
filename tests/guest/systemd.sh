#!/usr/bin/env bash
# The checks in the guest whose first process is systemd: alignd as its service, with the systemd cgroup
# driver. systemd writes the settings of its units again at each daemon-reload; those that alignd writes to
# cgroups must not be lost by it. Prints results in the Test Anything Protocol.
# shellcheck disable=SC2086,SC2154  # variables of node.sh; the paths here have no spaces
set -uo pipefail
cd "$(dirname "$0")" || exit 1

# shellcheck source=tests/guest/node.sh
. ./node.sh
state=/var/lib/alignd
cri=/run/alignd/alignd.sock
kubepods=/sys/fs/cgroup/kubepods.slice
kubelet_options=(--cgroup-driver systemd)

# The service of the package, with other paths and a log that needs no journal.
mkdir -p /etc/systemd/system/alignd.service.d /var/lib/alignd
cat >/etc/systemd/system/alignd.service.d/guest.conf <<UNIT
[Service]
ExecStart=
ExecStart=/usr/bin/alignd --config $node/config.yaml --log-format text --on-refusal refuse \\
  --runtime-endpoint unix://$node/containerd/containerd.sock --runtime-timeout-ms 600000
# The emulator is slow.
TimeoutStartSec=600
WatchdogSec=0
StandardOutput=append:$node/alignd.log
StandardError=append:$node/alignd.log
UNIT
write_config best-effort

# unit NAME: the unit of the pod's container.
unit() { basename "${group[$1]:-none}"; }
# cpus_in_all NAME: CPUs of the cgroup, and those that systemd knows.
cpus_in_all() {
  echo "$(cgroup "$1" cpuset.cpus) $(systemctl show -P AllowedCPUs "$(unit "$1")" | tr ' ' ,)"
}
count() { grep -c "$1" $node/alignd.log; }
# Conditions as the first word of a message: the remedies of others name them too.
another_program=' \(CpusetRepaired\|ConflictingCPUManager\):'

SYSTEMD_CGROUP=true start_containerd
systemctl daemon-reload
systemctl start alignd.service || give_up "alignd starts as a service" $node/start.log
passes "alignd starts as a service"
await $node/alignd.log "ready:"
note "alignd runs with capabilities $(sed -n 's/^CapEff:[[:space:]]*//p' \
  /proc/"$(systemctl show -P MainPID alignd.service)"/status)"

# --- CPUs.

u=-2222-3333-4444-555555555555
for name in shared-1 shared-2; do pod $name ${name#shared-}0000000$u; done
starts shared-1 shared-2
# The guard corrects what runc 1.1.5 has set in systemd.
eventually "shared-1: has all CPUs" "0-27 0-27" cpus_in_all shared-1

pod pinned 30000000$u 'cpu: 2, memory: 100Mi'
starts pinned
expect "pinned: has exclusive CPUs" "1-2 1-2" "$(cpus_in_all pinned)"
for name in shared-1 shared-2; do
  eventually "$name: has left them, and systemd knows" "0,3-27 0,3-27" cpus_in_all $name
done

# systemd reloads again and again while the next one starts.
pod storm 40000000$u 'cpu: 1, memory: 100Mi'
(while [ ! -e $node/calm ]; do systemctl daemon-reload && sleep 1; done) 2>/dev/null &
starts storm
touch $node/calm
wait %?calm
expect "storm: has an exclusive CPU" "3 3" "$(cpus_in_all storm)"
for name in shared-1 shared-2; do
  eventually "$name: has left it, and systemd knows" "0,4-27 0,4-27" cpus_in_all $name
done
expect "no reload gave it back" 0 "$(count "$another_program")"

# --- Quotas. The kubelet creates the pod's slice before its sandbox.

slice=kubepods-pod50000000${u//-/_}.slice
quota() { echo "$(cat "$kubepods/$slice/cpu.max") $(systemctl show -P CPUQuotaPerSecUSec "$slice")"; }
systemctl set-property --runtime $slice CPUQuota=50%
systemctl start $slice
eventually "lifted: has a quota before it starts" "50000 100000 500ms" quota
pod lifted 50000000$u 'cpu: 2, memory: 100Mi'
starts lifted
eventually "lifted: its pod has no quota" "max 100000 infinity" quota
systemctl daemon-reload
expect "lifted: nor after a reload" "max 100000 infinity" "$(quota)"
expect "lifted: it was lifted once" 1 "$(count 'its CFS quota of 50000 us is lifted')"

# --- alignd ends, and the pods go.

succeeds "alignd is started again" systemctl restart alignd.service
await $node/alignd.log "ready:" 2
systemctl daemon-reload
expect "pinned: keeps its CPUs" "1-2 1-2" "$(cpus_in_all pinned)"
remove pinned storm lifted
for name in shared-1 shared-2; do
  eventually "$name: has all CPUs again" "0-27 0-27" cpus_in_all $name
done
expect "no other program has changed a container" 0 "$(count "$another_program")"
echo "1..$checks"
