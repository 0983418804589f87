# Functions of the checks: the programs of the node, pods, cgroups and state files; results are in
# tap.sh. Sourced by checks.sh.
# shellcheck shell=bash disable=SC2086  # the paths here have no spaces

node=/node
state=$node/state
cri=$node/alignd.sock
gpus=(
  GPU-77a702db-e37f-3a74-d46d-c5713f66058c:numa=0
  GPU-9b341c59-f96b-ba85-c137-78c3652fea65:numa=1
  GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841:numa=1
)
kubelet_options=() # more of alignsim's
scope=pod          # topologyManagerScope
declare -A group

# shellcheck source=tests/support/tap.sh
. ../support/tap.sh

# Ends the checks: the following ones depend on what failed.
give_up() {
  fails "$1"
  sed 's/^/#   /' "$2"
  exit 1
}

# --- The node's programs.

# await LOG TEXT [TIMES]: waits until the log has that many lines with the text, for at most 5 minutes.
await() {
  local until=$((SECONDS + 300))
  until [ "$(grep -cF -- "$2" "$1")" -ge "${3:-1}" ]; do
    [ $SECONDS -le $until ] || give_up "\"$2\" in $1" "$1"
    sleep 0.2
  done
}

start_containerd() {
  local action
  for action in prepare start import; do
    ../../scripts/lib/containerd.sh $action $node/containerd >$node/start.log 2>&1 ||
      give_up "containerd: $action" $node/start.log
  done
}

write_config() { # TOPOLOGY-POLICY
  cat >$node/config.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: $1
topologyManagerScope: $scope
# 200m in total, rounded up to 1 CPU: CPU 0 is reserved for the system.
kubeReserved: {cpu: 100m, memory: 100Mi}
systemReserved: {cpu: 100m}
evictionHard: {}
reservedMemory:
- numaNode: 0
  limits: {memory: 100Mi}
YAML
}

start_alignd() { # TOPOLOGY-POLICY [OPTION...]
  write_config "$1"
  # A pod that does not fit is refused at once. By default, its call would wait for its deadline.
  alignd --config $node/config.yaml --listen "unix://$cri" --state-dir $state \
    --runtime-endpoint "unix://$node/containerd/containerd.sock" --runtime-timeout-ms 600000 \
    --on-refusal refuse "${@:2}" </dev/null >$node/alignd.log 2>&1 &
  alignd=$!
  await $node/alignd.log "ready:"
}

kill_alignd() {
  kill -KILL "$alignd"
  wait "$alignd" 2>/dev/null
}

# The device nodes are those of the kernel's log (/dev/kmsg): unlike /dev/null, a container can open
# them only if they were allocated to it.
start_devices() {
  local i devices=()
  for i in 0 1 2; do
    mknod /dev/nvidia$i c 1 11
    devices+=(--device "${gpus[$i]}")
  done
  alignsim devices --dir $state/device-plugins --resource nvidia.com/gpu "${devices[@]}" \
    --env 'NVIDIA_VISIBLE_DEVICES={ids}' --device-node '/dev/nvidia{index}:/dev/nvidia{index}:rw' \
    </dev/null >$node/devices.log 2>&1 &
  devices_registered=0
}

# Waits until the plugin has registered, or registered again.
await_devices() {
  devices_registered=$((devices_registered + 1))
  await $node/devices.log "registered nvidia.com/gpu" $devices_registered
}

# --- Pods.

# An emulated machine on a busy host is slow. gRPC and alignd stop connecting after 20 s; the call has
# then had no effect, and is repeated.
kubelet() {
  local output status try
  for try in 1 2 3 4 5; do
    status=0
    output=$(alignsim kubelet --cri "$cri" "${kubelet_options[@]}" --timeout 600 "$@" 2>&1) || status=$?
    [[ $output == *"failed to connect to all addresses"* || $output == *"has served none of ours"* ]] ||
      break
    note "could not connect, try $try" >&2
  done
  printf '%s\n' "$output"
  return "$status"
}

# pod NAME UID [LIMITS]: writes its manifest. LIMITS is the inside of a YAML flow mapping.
pod() {
  cat >"$node/$1.yaml" <<YAML
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

# run_pods NAME...: runs the pods one after the other. `answer` gets the output of the kubelet,
# `group[NAME]` the cgroups of the containers. Fails at the first pod that does not run. If containerd
# has lost the process of a sandbox, which happens on this slow machine, the pod is created again, as
# by a kubelet.
run_pods() {
  local name id status part try
  local pending=("$@") manifests
  answer=
  for try in 1 2 3; do
    status=0
    manifests=("${pending[@]/#/$node/}")
    part=$(kubelet run "${manifests[@]/%/.yaml}") || status=$?
    answer+=$part$'\n'
    [[ $status != 0 && $part == *"/proc/0/ns/"* ]] || break
    while [ ${#pending[@]} -gt 1 ] && grep -q "^default/${pending[0]} app: running as" <<<"$part"; do
      pending=("${pending[@]:1}")
    done
    note "${pending[0]}: its sandbox has no process, try $try"
    kubelet remove --grace 0 "${pending[0]}" >/dev/null
  done
  for name in "$@"; do
    id=$(sed -n "s|^default/$name app: running as \([^ ]*\) on .*|\1|p" <<<"$answer")
    group["$name"]=
    [ -z "$id" ] || group["$name"]=$(find /sys/fs/cgroup/kubepods* -type d -name "*$id*")
  done
  return "$status"
}

starts() { # NAME...
  if run_pods "$@"; then
    passes "$*: started"
  else
    fails "$*: started"
    details "$answer"
  fi
  note "$*"
}

remove() { succeeds "$*: removed" kubelet remove --grace 0 "$@"; }

# look_inside NAME: sets `seen` to what the container sees of itself, one fact per line. The container
# also creates a device node, which it must not be able to use without an allocated device.
look_inside() {
  # shellcheck disable=SC2016  # the container's shell expands it
  seen=$(kubelet exec "$1" -- sh -c '
    grep -E "^(Cpus|Mems)_allowed_list" /proc/self/status
    echo "gpus: $NVIDIA_VISIBLE_DEVICES"
    mknod /dev/nvidia-own c 1 11
    for file in /dev/nvidia*; do
      echo "nodes: $file"
      (echo "<7>hello" >$file) 2>/dev/null && echo "usable: $file"
    done
    rm /dev/nvidia-own
  ') || note "$seen"
}

# fact NAME: prints its values in `seen`, separated by spaces.
fact() { sed -n "s/^$1:[[:space:]]*//p" <<<"$seen" | paste -s -d ' '; }

# --- What the kernel reports.

cgroup() { cat "${group[$1]:-/none}/$2" 2>&1; } # NAME FILE
process_of() { head -n 1 "${group[$1]:-/none}/cgroup.procs" 2>/dev/null; }
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$(process_of "$1")/status" 2>&1; } # NAME KEY
cpus_of() { status_of "$1" Cpus_allowed_list; }
mems_of() { status_of "$1" Mems_allowed_list; }

# --- State files.

# The part that kubelets before 1.37 read.
cpu_state() { sed 's/,"data":.*/}/' $state/cpu_manager_state; }
memory_state() { cat $state/memory_manager_state; }
device_state() { cat $state/device-plugins/kubelet_internal_checkpoint; }
verify_state() {
  alignctl checkpoint verify $state/cpu_manager_state $state/memory_manager_state \
    $state/device-plugins/kubelet_internal_checkpoint
}
