# The functions of packaging/image/alignd-node, on a node that is a directory. systemctl is a function. Prints results in the Test Anything Protocol. Run by check.py, or:
#   busybox sh tests/kubernetes/node_test.sh packaging/image/alignd-node
# shellcheck shell=dash disable=SC1090,SC2034,SC2046,SC2086,SC2154,SC2317  # the script and its variables
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
script=$work/functions
sed '/^case ${1:-} in$/,$d' "$1" >"$script"
set --
ran=0 failures=0

# expect WHAT WANTED GOT
expect() {
  ran=$((ran + 1))
  if [ "$2" = "$3" ]; then
    echo "ok $ran - $1"
    return
  fi
  failures=$((failures + 1))
  echo "not ok $ran - $1"
  printf 'wanted: %s\ngot: %s\nlog:\n%s\n' "$2" "$3" "$(cat "$work/log" 2>/dev/null)" | sed 's/^/#   /'
}
# part TEXT: whether the log has it.
part() { if grep -qF -- "$1" "$work/log"; then echo yes; else echo no; fi; }
exists() { if [ -e "$1" ]; then echo yes; else echo no; fi; }
# does COMMAND...: its exit status; what it prints is in the log.
does() {
  "$@" >>"$work/log" 2>&1
  echo $?
}

# --- The node. Files in $work/systemd: what systemctl has done.
in_fake_host() {
  echo "$*" >>"$work/calls"
  case $* in
    "systemctl show --property=FragmentPath"*) [ ! -e "$host$units/alignd.service" ] || echo $units/alignd.service ;;
    "systemctl show --property=Listen"*) echo "/run/alignd/alignd.sock (Stream)" ;;
    "systemctl is-enabled"*)
      if [ ! -e "$host$units/alignd.service" ]; then return 1; fi
      if [ -e "$work/systemd/enabled" ]; then echo enabled; else echo disabled; return 1; fi
      ;;
    "systemctl is-active"*)
      if [ -e "$work/systemd/active" ]; then echo active; else echo inactive; return 3; fi
      ;;
    "systemctl enable"*) : >"$work/systemd/enabled" ;;
    "systemctl disable --now"*)
      shift 3
      for unit; do
        if [ ! -e "$host$units/$unit" ]; then echo "unit $unit does not exist" >&2; return 1; fi
      done
      rm -f "$work/systemd/enabled" "$work/systemd/active"
      ;;
    "systemctl restart alignd.service" | "systemctl start alignd.service")
      # A running service is not started again.
      if [ "$2" = start ] && [ -e "$work/systemd/active" ]; then return 0; fi
      if grep -q broken "$host$top/bin/alignd"; then rm -f "$work/systemd/active"; return 1; fi
      cp "$host$top/bin/alignd" "$work/systemd/active"
      ;;
    *"alignctl status"*) [ -e "$work/systemd/active" ] || return 2 ;;
    *"alignctl kubelet status"*) cat "$work/kubelet" ;;
    *) ;;
  esac
}

# node: a new one, without alignd. image VERSION: the image of this pod.
node() {
  cd "$work" && rm -rf "$work"/[!f]* || exit 1
  . "$script"
  set +e
  trap - TERM INT
  in_host() { in_fake_host "$@"; }
  host=$work/node image=$work/image done=$work/done interval=0 watching=1
  unset ALIGND_ARGS ALIGND_IGNORE ALIGND_CONFIG ALIGND_PURGE ALIGND_KUBELET
  mkdir -p "$host/run/systemd/system" "$host/etc" "$host/opt" "$host$state" "$host/proc/1/net" "$work/systemd"
  : >"$host/proc/1/net/unix"
  echo 0::/init.scope >"$host/proc/1/cgroup"
  printf '{\n  "state": "not-attached",\n  "endpoint": "unix:///run/containerd/containerd.sock",\n}\n' >"$work/kubelet"
  : >"$work/log"
  : >"$work/calls"
}
image() {
  mkdir -p "$image/bin" "$image/systemd" "$image/config"
  echo "$1" >"$image/id"
  echo "alignd $1" >"$image/bin/alignd"
  cp "$image/bin/alignd" "$image/bin/alignctl"
  echo "ExecStart=/usr/bin/alignd --config" >"$image/systemd/alignd.service"
  echo "[Socket]" >"$image/systemd/alignd.socket"
  echo "cpuManagerPolicy: none" >"$image/config/kubelet-config.yaml"
  echo pod >"$image/check-pod.yaml"
}
# connects: a program is connected to alignd's socket.
connects() { echo "0: 2 0 0 1 03 1 /run/alignd/alignd.sock" >"$host/proc/1/net/unix"; }
endpoint() { printf '{\n  "state": "%s",\n  "endpoint": "%s",\n}\n' "$1" "$2" >"$work/kubelet"; }

# --- The health.
node
status() { echo "{\"health\":\"degraded\",\"problems\":[$1],\"time\":\"\"}"; }
expect "problems: one" "StateNotWritable" "$(problems "$(status '"StateNotWritable"')")"
expect "problems: two" "StateNotWritable, device unhealthy" "$(problems "$(status '"StateNotWritable","device unhealthy"')")"
expect "problems: none" "" "$(problems "$(status '')")"
ALIGND_IGNORE="UnmanagedContainer,device unhealthy"
expect "problems: one that is ignored" "" "$(problems "$(status '"UnmanagedContainer"')")"
expect "problems: an ignored one with a count" "" "$(problems "$(status '"UnmanagedContainer (2)","device unhealthy (12)"')")"
expect "problems: others beside it" "StateNotWritable (2)" "$(problems "$(status '"UnmanagedContainer (2)","StateNotWritable (2)"')")"
expect "problems: a part of a name is not ignored" "device" "$(problems "$(status '"device"')")"

# --- Removing.
# installs VERSION: a completed installation.
installs() {
  image "$1"
  install >>"$work/log" 2>&1
}
node
expect "install: a node without alignd" 0 "$(does installs one)"
expect "... the marker names the image" one "$(cut -d' ' -f1 "$host$top/installed")"
rm "$host$units/alignd.socket"
expect "remove: after a removal that was killed between the units" 0 "$(does remove)"
expect "... nothing is left" "no no" "$(exists "$host$top") $(exists "$host$units/alignd.service")"
node
installs one
rm "$host$units"/alignd.* "$work/systemd"/*
: >"$host$units/alignd.socket.new"
expect "remove: after a removal that was killed behind the units" 0 "$(does remove)"
expect "... no part of a unit is left" no "$(exists "$host$units/alignd.socket.new")"
node
installs one
rm "$host$units/alignd.service"
expect "removed: not with our socket unit" yes "$(
  : >$done
  rm -rf "${host:?}$top"
  if removed >/dev/null; then echo no; else echo yes; fi
)"

# killed_by TEXT: as SIGKILL behind the first call of systemctl that begins so.
killed_by() {
  in_host() {
    in_fake_host "$@"
    status=$?
    case $* in "$kill_at"*) exit 9 ;; esac
    return $status
  }
  attempt() { # not in a subshell
    shift
    result=0
    "$@" >"$work/output" 2>&1 || result=$?
    output=$(cat "$work/output")
    return $result
  }
  kill_at=$1
}
node
installs one
(killed_by "systemctl daemon-reload"; take_away) >>"$work/log" 2>&1
expect "install: after an interrupted removal" 0 "$(does installs one)"
expect "... alignd is enabled again" yes "$(exists "$work/systemd/enabled")"
node
installs one
rm "$work/systemd"/*
expect "install: after systemctl disable" 0 "$(does installs two)"
expect "... alignd stays disabled" "no yes" "$(exists "$work/systemd/enabled") $(part "is disabled on this node")"
: >"$work/log"
expect "install: the same again" 0 "$(does install)"
expect "... the log says that alignd is disabled" yes "$(part "is disabled on this node")"
node
installs one
rm "$work/systemd/active"
: >"$work/log"
install >>"$work/log" 2>&1
expect "install: the log says that alignd is stopped" yes "$(part "alignd.service is inactive")"

# --- A version that does not work.
node
installs one
image broken
expect "install: a version that does not start" 1 "$(does install)"
expect "... the former one is restored" "one alignd one" "$(cut -d' ' -f1 "$host$top/installed") $(cat "$work/systemd/active")"
: >"$work/calls"
expect "... it is not tried again at once" 1 "$(does install)"
expect "... nothing is restarted" 0 "$(grep -c restart "$work/calls")"
record() {
  if [ ! -e "$host$top/failed" ]; then return; fi
  set -- $(cat "$host$top/failed")
  echo "$2 $(($3 - $(date +%s)))"
}
due() { # makes the next attempt due
  if [ ! -e "$host$top/failed" ]; then return; fi
  set -- $(cat "$host$top/failed")
  echo "$1 $2 0" >"$host$top/failed"
}
expect "... the next attempt is in 2 minutes" 1 "$(record | awk '{ print ($1 == 1 && $2 > 100 && $2 <= 120) }')"
due
install >>"$work/log" 2>&1
expect "... then in 4" 1 "$(record | awk '{ print ($1 == 2 && $2 > 200 && $2 <= 240) }')"
for _ in 3 4 5 6 7; do
  due
  install >>"$work/log" 2>&1
done
expect "... at last in an hour" 1 "$(record | awk '{ print ($1 == 7 && $2 > 3500 && $2 <= 3600) }')"
ALIGND_CONFIG="cpuManagerPolicy: static"
: >"$work/calls"
install >>"$work/log" 2>&1
expect "... another configuration is tried at once" 2 "$(grep -c "restart alignd" "$work/calls")"
unset ALIGND_CONFIG
expect "... and another version" 0 "$(does installs two)"
expect "... the failure is forgotten" no "$(exists "$host$top/failed")"

node
image broken
expect "install: a first version that does not start" 1 "$(does install)"
expect "... is removed" "no no" "$(exists "$host$top/bin") $(exists "$host$units/alignd.service")"
: >"$work/calls"
does install >/dev/null
expect "... and not tried again at once" 0 "$(grep -c restart "$work/calls")"
node
image broken
connects
expect "install: a first version that does not start, with a program that is connected" 1 "$(does install)"
expect "... the unit and its socket stay" yes "$(exists "$host$units/alignd.socket")"

# Pauses until the next attempt; `failed` is deleted during the 5th.
node
mkdir -p "$host$top"
: >"$host$top/failed"
interval=10 pauses=0
pause() {
  pauses=$((pauses + 1))
  [ $pauses != "$delete_at" ] || rm "$host$top/failed"
}
delete_at=0
hold_off 120 >>"$work/log"
expect "the next attempt: after its time" 12 $pauses
pauses=0 delete_at=5
hold_off 120 >>"$work/log"
expect "... or when the file failed is deleted" 5 $pauses

# --- A version that starts and does not answer. Each look takes 20 s of this clock.
node
echo 1000 >"$work/clock"
date() {
  echo $(($(cat "$work/clock") + 20)) >"$work/clock.new"
  mv "$work/clock.new" "$work/clock"
  cat "$work/clock"
}
sleep() { :; }
expect "a version that does not answer: fails" 1 "$(does answers)"
expect "... after 30 s, however long a call takes" 2 "$(grep -c "alignctl status" "$work/calls")"
unset -f date sleep

# --- Interrupted installations.
node
image one
(answers() { exit 9; }; install) >>"$work/log" 2>&1
expect "an interrupted first installation: runs, without a marker" "yes no" \
  "$(exists "$work/systemd/active") $(exists "$host$top/installed")"
expect "... the next version is installed" 0 "$(does installs two)"
expect "... and runs" "alignd two" "$(cat "$work/systemd/active")"
node
image one
(answers() { exit 9; }; install) >>"$work/log" 2>&1
expect "an interrupted first installation, then a version that does not start" 1 "$(does installs broken)"
expect "... the running one is restored" "alignd one" "$(cat "$work/systemd/active")"
node
image one
(killed_by "systemctl daemon-reload"; install) >>"$work/log" 2>&1
(killed_by "systemctl daemon-reload"; install) >>"$work/log" 2>&1
expect "a first installation that was killed twice before its start" 0 "$(does install)"
expect "... alignd is enabled" yes "$(exists "$work/systemd/enabled")"

# --- The configuration of the pod.
node
ALIGND_CONFIG="kind: KubeletConfiguration
cpuManagerPolicy: static"
installs one
expect "ALIGND_CONFIG: is the node's configuration" "$ALIGND_CONFIG" "$(cat "$host$config")"

# --- The purge.
pod=0a1b2c3d-1111-2222-3333-444455556666
other=0a1b2c3d-1111-2222-3333-777788889999
runs() { mkdir -p "$host/proc/$1"; echo "$2" >"$host/proc/$1/cgroup"; }
for path in "4:cpuset:/kubepods/burstable/pod$pod/0123" "0::/../../pod$pod/0123" \
  "0::/../../kubepods-burstable.slice/kubepods-burstable-pod$(echo $pod | tr - _).slice/cri-0123.scope"; do
  node
  runs 17 "$path"
  echo "$pod" >"$host$state/cpu_manager_state"
  expect "purge: a pod with assignments runs ($path)" 1 "$(does purge)"
  expect "... the state is kept" yes "$(exists "$host$state/cpu_manager_state")"
done
node
runs 17 "4:cpuset:/kubepods/burstable/pod$pod/0123"
echo "$other" >"$host$state/cpu_manager_state"
mkdir -p "$host/sys/fs/cgroup/kubepods/burstable/pod$pod"
echo 0 >"$host/sys/fs/cgroup/kubepods/burstable/pod$pod/cgroup.procs"
for name in decisions decisions.damaged .decisions.new; do echo "$pod" >"$host$state/$name"; done
expect "purge: a pod that has decisions and no assignments" 0 "$(does purge)"
expect "... the state is deleted" no "$(exists "$host$state")"
node
rm "$host/proc/1/cgroup"
expect "purge: refuses if the node's processes are not seen" 1 "$(does purge)"

# --- Whether the kubelet needs alignd.
node
installs one
endpoint by-hand unix:///run/alignd/alignd.sock
expect "unneeded: not if the endpoint is alignd's, whatever the state" 1 "$(does unneeded)"
endpoint not-attached unix:///run/containerd/containerd.sock
expect "unneeded: with another endpoint" 0 "$(does unneeded)"
connects
expect "unneeded: not with a connection" 1 "$(does unneeded)"
: >"$host/proc/1/net/unix"
printf '{\n  "state": "by-hand",\n}\n' >"$work/kubelet"
expect "unneeded: an endpoint that is not known, without connections" 0 "$(does unneeded)"
watching=5
(sleep 1; connects) &
expect "unneeded: not if a kubelet connects meanwhile" 1 "$(does unneeded)"
wait

# --- The kubelet's files.
node
installs one
ALIGND_KUBELET=attach
printf '{\n  "state": "attached",\n  "problems": [\n    {\n      "what": "the kubelet reserves 500m CPU",\n      "remedy": "-"\n    }\n  ]\n}\n' >"$work/kubelet"
expect "attach: succeeds also if kubelet and alignd disagree" 0 "$(does change_kubelet)"
expect "attach: says where kubelet and alignd disagree" yes "$(part "the kubelet and alignd disagree: the kubelet reserves 500m CPU")"

# --- The pod's process.
node
begin() { echo began >>"$work/log"; }
(
  lock() { stopping=yes; } # SIGTERM while it waits
  step begin
) >>"$work/log" 2>&1
expect "a pod that ends: does not begin a step" no "$(part began)"
node
installs one
(
  steps=0
  again() {
    steps=$((steps + 1))
    [ $steps -lt 2 ] || exit 0
    install
  }
  pause() { rm -f "$host$top/installed"; }
  until_done again is_not_installed ready
) >>"$work/log" 2>&1
expect "a step that was undone: is repeated" yes "$(part "the node was changed since")"

echo "1..$ran"
[ "$failures" = 0 ]
