# Functions of the checks: packages, pods, units; results are in tap.sh. Sourced by checks.sh.
# shellcheck shell=bash disable=SC2034  # the checks use the variables

state=/var/lib/alignd
cri=/run/alignd/alignd.sock
export DEBIAN_FRONTEND=noninteractive

# shellcheck source=tests/support/tap.sh
. ./tap.sh

# --- Units and packages.

property() { systemctl show --value --property="$2" "$1"; } # UNIT NAME
pid_of_alignd() { property alignd.service MainPID; }
# signal NAME PID: never to a whole process group, which 0 stands for.
signal() { if [ "$2" -gt 1 ]; then kill "-$1" "$2"; else fails "SIG$1: alignd runs"; fi; }
unit_state() { echo "$(systemctl is-enabled "$1" 2>&1), $(systemctl is-active "$1" 2>&1)"; }
package() { ls "/test/packages/$1"_*.deb; } # NAME: its file
condition() {
  local status
  status=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)
  case $status in '' | not-installed) echo absent ;; *) echo "$status" ;; esac
}

# The endpoint in the command line of the kubelet that runs: the last one counts.
endpoint() {
  tr '\0' '\n' <"/proc/$(property kubelet.service MainPID)/cmdline" |
    sed -n 's/^--container-runtime-endpoint=//p' | tail -n 1
}

# --- Pods.

# alignsim stops connecting after 1 s, a kubelet after 5 s; both then connect again. After GOAWAY, a call
# that was not sent yet is repeated by a kubelet's gRPC, but not by alignsim's. These calls have had no
# effect.
kubelet() {
  local output status until=$((SECONDS + 60))
  while :; do
    status=0
    output=$(/test/alignsim kubelet --cri "$cri" "$@" 2>&1) || status=$?
    [[ $output == *"failed to connect to all addresses"* || $output == *"GOAWAY received"* ]] && [ $SECONDS -le $until ] || break
  done
  printf '%s\n' "$output"
  return "$status"
}

# pod NAME UID [LIMITS]: writes its manifest. LIMITS is the inside of a YAML flow mapping.
pod() {
  cat >"/test/$1.yaml" <<YAML
metadata: {name: $1, namespace: default, uid: $2}
spec:
  hostNetwork: true
  containers:
  - name: app
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [sleep, "100000"]
    resources: {limits: {${3:-}}}
YAML
}
# The process of a pod's container: the one that sleeps in the pod's cgroup.
process_of() { # UID
  local list pid
  find /sys/fs/cgroup -path "*pod$1*" -name cgroup.procs | while read -r list; do
    while read -r pid; do
      if grep -qs sleep "/proc/$pid/cmdline"; then echo "$pid"; fi
    done <"$list"
  done | sort -u | head -n 1
}
cpus_of() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$(process_of "$1")/status"; }
# runs_on UID CPU: whether its process may run there.
runs_on() {
  local part
  for part in $(cpus_of "$1" | tr , ' '); do
    if [ "$2" -ge "${part%-*}" ] && [ "$2" -le "${part#*-}" ]; then
      echo yes
      return
    fi
  done
  echo no
}
assigned_to() { sed -n "s/.*\"$1\":{\"app\":\"\([0-9,-]*\)\"}.*/\1/p" $state/cpu_manager_state; } # UID
