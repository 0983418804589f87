#!/usr/bin/env bash
# Builds alignd and demonstrates it, on Debian 12:
#   scripts/quickstart.sh
#     Part 1  a simulated node with 2 NUMA nodes, 28 CPUs and 3 GPUs: alignd allocates CPUs and GPUs
#     Part 2  this machine, with a temporary containerd: containers run on exclusive CPUs
# Afterwards the directory build and the installed packages remain. No service is started or enabled.
# Exit status 0: every check passed.
# Environment:
#   JOBS  number of parallel compilers (default: all CPUs)
#   BIN   directory with alignd, alignctl and alignsim; then nothing is installed or built
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
data=config/quickstart
bin=${BIN:-build}
work=$(mktemp -d /tmp/alignd-quickstart.XXXXXX)
cgroup=/$(basename "$work")
pids=() wrong=0 containerd=
pid_alignd="" pid_devices="" pid_runtime="" pid_real=""
started=$(date +%s)

# --- Output and checks ----------------------------------------------------------------------------

heading() { printf '\n=== %s\n' "$*"; }
say() { printf '%s\n' "$*"; }

# Prints a command, without the temporary directory in its paths, and runs it.
show() {
  local text="$*"
  text=${text//"$work/"/}
  printf '\n$ %s\n' "${text//"$bin/"/}"
  "$@"
}

ok() { printf '  ok: %s\n' "$*"; }
bad() {
  printf '  FAILED: %s\n' "$*"
  wrong=$((wrong + 1))
}

# expect WHAT WANTED GOT
expect() {
  if [ "$2" = "$3" ]; then
    ok "$1"
  else
    bad "$1"
    printf '    expected %s\n    got      %s\n' "$2" "$3"
  fi
}

# --- Background processes -------------------------------------------------------------------------

# launch NAME COMMAND...: starts a process whose output goes to NAME.log.
launch() {
  local name=$1
  shift
  "$@" </dev/null >"$work/$name.log" 2>&1 &
  pids+=("$!")
  eval "pid_$name=$!"
}

end_process() {
  kill "$1" 2>/dev/null || return 0
  wait "$1" 2>/dev/null || true
}

# await WHAT FILE TEXT: waits until the file contains the text, for at most 20 s.
await() {
  local tries
  for ((tries = 0; tries < 200; tries++)); do
    if grep -qF -- "$3" "$2" 2>/dev/null; then return; fi
    sleep 0.1
  done
  bad "$1 is not ready after 20 s. Its log:"
  sed 's/^/    /' "$2"
  exit 1
}

# shellcheck disable=SC2317  # called by the trap
clean_up() {
  local status=$? pid group
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do end_process "$pid"; done
  if [ -n "$containerd" ]; then scripts/lib/containerd.sh stop "$containerd"; fi
  for group in /sys/fs/cgroup/*"$cgroup" "/sys/fs/cgroup$cgroup"; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- Build ----------------------------------------------------------------------------------------

build() {
  heading "Installing packages and building"
  scripts/install-deps.sh build runtime
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  # An existing build directory keeps its configuration.
  if [ ! -f "$bin/build.ninja" ] && ! cmake -G Ninja -S . -B "$bin" "${launcher[@]}" \
    -DALIGND_WERROR=OFF -DALIGND_DEBUG_INFO=OFF -DALIGND_TESTS=OFF -DALIGND_BENCH=OFF >"$work/cmake.log" 2>&1; then
    cat "$work/cmake.log"
    exit 1
  fi
  say "Compiling alignd, alignctl and alignsim. With 2 CPUs, this script takes four to five minutes in all from nothing."
  ninja -C "$bin" -j "${JOBS:-$(nproc)}" --quiet alignd alignctl alignsim
  ok "built after $(($(date +%s) - started)) s"
}

# --- Part 1: a simulated node ---------------------------------------------------------------------

start_alignd() { # CONFIG
  # The simulated node has no cgroups: those of this machine's kubelet are not its own.
  mkdir -p "$work/cgroup"
  launch alignd "$bin/alignd" --node "$data/node.json" --config "$1" \
    --listen "unix://$work/alignd.sock" --runtime-endpoint "unix://$work/runtime.sock" \
    --state-dir "$work/state" --metrics-address off --cgroup-root "$work/cgroup"
  await alignd "$work/alignd.log" "ready:"
}

kubelet=("$bin/alignsim" kubelet --cri "$work/alignd.sock")

# Prints what the runtime received when the containers of pod $1 were created.
created() {
  awk -v pod="$1 " '/^[a-z]/ { mine = /^create/ && index($0, pod) } mine' "$work/runtime.log"
}

start_simulation() {
  launch runtime "$bin/alignsim" runtime --listen "unix://$work/runtime.sock"
  await "the simulated runtime" "$work/runtime.log" "serving CRI"
  start_alignd "$data/kubelet-config.yaml"
  launch devices "$bin/alignsim" devices --dir "$work/state/device-plugins" \
    --resource nvidia.com/gpu \
    --device GPU-77a702db-e37f-3a74-d46d-c5713f66058c:numa=0 \
    --device GPU-9b341c59-f96b-ba85-c137-78c3652fea65:numa=1 \
    --device GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841:numa=1 \
    --env 'NVIDIA_VISIBLE_DEVICES={ids}' --device-node '/dev/nvidia{index}:/dev/nvidia{index}:rw'
  await "the simulated device plugin" "$work/devices.log" "registered nvidia.com/gpu"
}

# The part of a state file that kubelets up to 1.36 read, in the form in which they write it.
plain_part() { sed 's/,"data":.*/}/' "$1"; }

simulated_node() {
  heading "Part 1: a simulated node with 2 NUMA nodes, 28 CPUs and 3 GPUs"
  say "alignd runs between a simulated kubelet and a simulated container runtime (alignsim)."
  say "A simulated device plugin registers 1 GPU on NUMA node 0 and 2 GPUs on NUMA node 1."
  say "CPU 0 is reserved. The topology manager policy is best-effort."
  say "All processes communicate over unix sockets, as on a real node. alignsim writes the requests of"
  say "a pod into its annotation alignd.io/resources: CRI alone does not show devices."
  start_simulation

  say ""
  say "--- A pod requests 3 CPUs and 1 GPU"
  show "${kubelet[@]}" run "$data/gpu-pod.yaml" || bad "the pod does not run"
  say "The request that the runtime received from alignd (CPUs and GPU are on NUMA node 0):"
  created 1gpu-numa-batch-pod | sed 's/^/  /'
  say "The state file cpu_manager_state, in the kubelet's format:"
  say "  $(cat "$work/state/cpu_manager_state")"
  expect "up to \"data\", it is byte for byte what a kubelet writes for this pod on this node" \
    '{"policyName":"static","defaultCpuSet":"0,4-27","entries":{"513cb897-0262-4868-826f-aa943ee45a38":{"app":"1-3"}},"checksum":1982473279}' \
    "$(plain_part "$work/state/cpu_manager_state")"
  expect "the container has the GPU of NUMA node 0" 1 \
    "$(created 1gpu-numa-batch-pod | grep -cF 'env NVIDIA_VISIBLE_DEVICES=GPU-77a702db-')"

  say ""
  say "--- A second pod like the first: NUMA node 0 has no free GPU now"
  show "${kubelet[@]}" run "$data/gpu-pod-2.yaml" || bad "the pod does not run"
  say "The request that the runtime received (CPUs and GPU are on NUMA node 1):"
  created 1gpu-numa-batch-pod-2 | sed 's/^/  /'
  expect "the container has the first free CPUs of NUMA node 1" 1 \
    "$(created 1gpu-numa-batch-pod-2 | grep -cE '^create .* cpuset 14-16 ')"
  expect "the container has a GPU of NUMA node 1" 1 \
    "$(created 1gpu-numa-batch-pod-2 | grep -cE 'env NVIDIA_VISIBLE_DEVICES=GPU-(9b341c59|c1e9f249)-[^,]*$')"
  expect "cpu_manager_state is again byte for byte what a kubelet writes" \
    '{"policyName":"static","defaultCpuSet":"0,4-13,17-27","entries":{"513cb897-0262-4868-826f-aa943ee45a38":{"app":"1-3"},"f22736b4-45a9-4852-8fdd-feb948918597":{"app":"14-16"}},"checksum":2054609245}' \
    "$(plain_part "$work/state/cpu_manager_state")"
  say "The device checkpoint device-plugins/kubelet_internal_checkpoint, in the kubelet's format:"
  say "  $(cut -c-230 "$work/state/device-plugins/kubelet_internal_checkpoint")..."
  show "$bin/alignctl" checkpoint verify "$work/state/cpu_manager_state" \
    "$work/state/device-plugins/kubelet_internal_checkpoint" || bad "a checksum does not verify"
}

refusal_and_removal() {
  local tries
  say ""
  say "--- The status of alignd"
  show "$bin/alignctl" status --socket "$work/control.sock" || bad "alignctl status"
  show "$bin/alignctl" pods --socket "$work/control.sock" || bad "alignctl pods"

  say ""
  say "--- alignd restarts with the topology manager policy single-numa-node: allocations are kept"
  end_process "$pid_alignd"
  start_alignd "$data/strict-kubelet-config.yaml"
  expect "cpu_manager_state is unchanged after the restart" 1 "$(grep -c '"defaultCpuSet":"0,4-13,17-27"' "$work/state/cpu_manager_state")"
  # The plugin registers again when alignd's socket is back.
  for ((tries = 0; tries < 200; tries++)); do
    [ "$(grep -c 'registered nvidia.com/gpu' "$work/devices.log")" -lt 2 ] || break
    sleep 0.1
  done

  say ""
  say "--- A pod requests 16 CPUs and 1 GPU: no NUMA node has 16 free CPUs, so alignd refuses it"
  if show "${kubelet[@]}" run "$data/wide-pod.yaml" > >(tee "$work/refused") 2>&1; then
    bad "the pod runs"
  fi
  expect "the error of CreateContainer names the reason and the free resources" 1 \
    "$(grep -cE 'TopologyAffinityError: .* Free: NUMA node 0: 10 of 14 CPUs' "$work/refused")"
  say "How alignd decided:"
  show "$bin/alignctl" explain --socket "$work/control.sock" --limit 1 16cpu-numa-batch-pod ||
    bad "alignctl explain"

  say ""
  say "--- The first pod is removed: its CPUs are free again"
  show "${kubelet[@]}" remove 1gpu-numa-batch-pod || bad "remove"
  # alignd relays the answer of RemovePodSandbox at once and releases the pod beside it.
  for ((tries = 0; tries < 50; tries++)); do
    ! grep -q '"defaultCpuSet":"0-13,17-27"' "$work/state/cpu_manager_state" || break
    sleep 0.1
  done
  say "  $(cat "$work/state/cpu_manager_state")"
  expect "CPUs 1-3 are back in the default set" 1 \
    "$(grep -c '"defaultCpuSet":"0-13,17-27"' "$work/state/cpu_manager_state")"
  show "${kubelet[@]}" list || bad "list"
  end_process "$pid_devices"
  end_process "$pid_alignd"
  end_process "$pid_runtime"
}

# --- Part 2: this machine -------------------------------------------------------------------------

real_kubelet=("$bin/alignsim" kubelet --cri "$work/real.sock" --cgroup-root "$cgroup")

# The CPUs that the kernel lets a container's process use, read inside the container.
cpus_inside() {
  local id
  id=$(ctr --address "$containerd/containerd.sock" --namespace k8s.io containers ls |
    awk '/localhost\/busybox/ { print $1 }' | while read -r id; do
    if ctr --address "$containerd/containerd.sock" --namespace k8s.io containers info "$id" |
      grep -qF "\"io.kubernetes.pod.name\": \"$1\""; then echo "$id"; fi
  done)
  ctr --address "$containerd/containerd.sock" --namespace k8s.io tasks exec --exec-id "quick$RANDOM" \
    "$id" grep Cpus_allowed_list /proc/1/status | awk '{ print $2 }'
}

this_machine() {
  heading "Part 2: this machine with a real containerd"
  local missing
  missing=$(scripts/lib/containerd.sh missing)
  if [ -n "$missing" ]; then
    say "SKIPPED. This machine lacks:"
    printf '%s\n' "$missing" | sed 's/^/  - /'
    return
  fi
  containerd=$work/containerd
  say "The script starts a containerd in a temporary directory, builds two small images, and starts"
  say "alignd in front of it. Other containerds are not touched. CPU 0 is reserved."
  scripts/lib/containerd.sh prepare "$containerd"
  scripts/lib/containerd.sh start "$containerd"
  scripts/lib/containerd.sh import "$containerd"
  launch real "$bin/alignd" --config "$data/this-machine.yaml" --metrics-address off \
    --listen "unix://$work/real.sock" \
    --runtime-endpoint "unix://$containerd/containerd.sock" --state-dir "$work/real-state"
  await alignd "$work/real.log" "ready:"

  local all before exclusive during after
  all=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  say ""
  say "--- A pod without CPU requests runs on the shared CPUs"
  show "${real_kubelet[@]}" run "$data/shared-pod.yaml" || bad "the pod does not run"
  before=$(cpus_inside shared-pod)
  say "In the shared container:     Cpus_allowed_list: $before"
  expect "the shared container may use every CPU" "$all" "$before"

  say ""
  say "--- A Guaranteed pod with 1 CPU gets an exclusive CPU"
  show "${real_kubelet[@]}" run "$data/exclusive-pod.yaml" || bad "the pod does not run"
  exclusive=$(cpus_inside exclusive-pod)
  during=$(cpus_inside shared-pod)
  say "In the exclusive container:  Cpus_allowed_list: $exclusive"
  say "In the shared container:     Cpus_allowed_list: $during"
  say "  $(cat "$work/real-state/cpu_manager_state")"
  expect "the exclusive container runs on the CPU that cpu_manager_state assigns to it" 1 \
    "$(grep -c "{\"app\":\"$exclusive\"}" "$work/real-state/cpu_manager_state")"
  expect "the shared container runs on all other CPUs" 1 \
    "$(grep -c "\"defaultCpuSet\":\"$during\"" "$work/real-state/cpu_manager_state")"
  [ "$exclusive" != "$during" ] || bad "both containers have the same CPUs"

  say ""
  say "--- The exclusive pod is removed: its CPU is shared again"
  show "${real_kubelet[@]}" remove exclusive-pod || bad "remove"
  local tries
  for ((tries = 0; tries < 30; tries++)); do
    after=$(cpus_inside shared-pod)
    [ "$after" != "$all" ] || break
    sleep 0.2
  done
  say "In the shared container:     Cpus_allowed_list: $after"
  expect "the shared container may use every CPU again" "$all" "$after"
  show "${real_kubelet[@]}" remove shared-pod || bad "remove"
  end_process "$pid_real"
}

if [ -z "${BIN:-}" ]; then build; fi
simulated_node
refusal_and_removal
this_machine

heading "Done in $(($(date +%s) - started)) s"
if [ "$wrong" != 0 ]; then
  say "Checks FAILED: $wrong. See above."
  exit 1
fi
say "All checks passed. Next: README.md, config/kubelet-config.yaml, alignd --help."
