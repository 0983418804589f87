# The container image: what the pods of config/kubernetes do on a node. containerd runs the image with the
# mounts and rights of the manifests; a kubelet would add no more than the restarts.
# shellcheck shell=bash disable=SC2154

mount --make-rshared / # as systemd does it outside of containers
for kind in first next broken; do
  succeeds "the image ($kind): is imported" ctr -n k8s.io images import "/test/image-$kind.tar"
done
# A kubelet that is found by its name, as a real one.
printf '#!/bin/bash\nexec -a /usr/bin/kubelet /bin/bash -c "while :; do sleep 1000; done" "$@"\n' >/usr/bin/kubelet
systemctl restart kubelet.service
top=/opt/alignd unit=/etc/systemd/system/alignd.service

# pod_starts NAME KIND CTR-ARGUMENT...: the pod of alignd-NAME, with the image KIND.
pod_starts() {
  local name=$1 kind=$2 arguments
  shift 2
  mapfile -t arguments <"/test/$name.args"
  : >"/test/$name.log"
  ctr -n k8s.io run -d --log-uri "file:///test/$name.log" "${arguments[@]}" --env ALIGND_INTERVAL=1 "$@" "localhost/alignd:$kind" \
    "$name" /bin/alignd-node "$name"
}
# As a deletion of the pod: SIGTERM, then the end of the container.
pod_ends() { # NAME
  local tries
  ctr -n k8s.io tasks kill -s SIGTERM "$1" >/dev/null 2>&1
  for ((tries = 0; tries < 600; tries++)); do
    [ "$(ctr -n k8s.io tasks ls | awk -v name="$1" '$1 == name { print $3 }')" = RUNNING ] || break
    sleep 0.1
  done
  [ "$tries" -lt 600 ] && ctr -n k8s.io tasks rm "$1" >/dev/null 2>&1
  ctr -n k8s.io containers rm "$1"
}
probes=0
# The readiness probe of the pod. Prints what it says, and its exit status if that is not 0.
probe() { # NAME PROBE
  local said status=0
  probes=$((probes + 1))
  said=$(ctr -n k8s.io tasks exec --exec-id "probe-$BASHPID-$SECONDS-$probes" "$1" /bin/alignd-node "$2" 2>&1) || status=$?
  [ "$status" = 0 ] && echo "ready: $said" || echo "not ready: $said"
}
is_ready() { local said; said=$(probe install ready) && echo "${said%%:*}"; }
is_removed() { probe remove removed; }
logged() { grep -cF -- "$2" "/test/$1.log" | sed 's/^[1-9].*/yes/'; } # POD TEXT
log_of() { sed 's/^/#   /' "/test/$1.log"; }

# --- Installing.
before=$(property kubelet.service MainPID)
succeeds "alignd-install: starts on a node without alignd" pod_starts install first
eventually "... and becomes ready" ready is_ready
log_of install
fact_of_pod() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(ctr -n k8s.io tasks ls | awk '$1 == "install" { print $2 }')/status"; }
expect "its pod: has one capability, CAP_SYS_CHROOT" 0000000000040000 "$(fact_of_pod CapBnd)"
expect "its pod: no new privileges" 1 "$(fact_of_pod NoNewPrivs)"
expect "its pod: filters system calls" 2 "$(fact_of_pod Seccomp)"
in_pod() { ctr -n k8s.io tasks exec --exec-id "shell-$SECONDS-$RANDOM" install /bin/sh -c "$1" 2>&1; }
refuses "its pod: cannot write to /usr of the node" in_pod 'echo >/host/usr/probe'
refuses "its pod: cannot write to its own root directory" in_pod 'echo >/probe'
expect_part "its pod: has the alignctl of the node" "CPU manager:      none" "$(in_pod 'alignctl status')"
expect "alignd.service: is enabled and runs" "enabled, active" "$(unit_state alignd.service)"
expect "alignd.socket: is enabled and runs" "enabled, active" "$(unit_state alignd.socket)"
expect_part "alignd.service: runs the installed program" "$top/bin/alignd" "$(readlink "/proc/$(pid_of_alignd)/exe")"
expect "the default configuration is installed" "cpuManagerPolicy: none" "$(grep ^cpuManagerPolicy: /etc/alignd/kubelet-config.yaml)"
expect "the kubelet: was not restarted" "$before" "$(property kubelet.service MainPID)"
expect "the kubelet: has no other drop-in" /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf \
  "$(property kubelet.service DropInPaths)"
note "image installed"

# --- The configuration of the manifest, and flags.
before=$(pid_of_alignd)
succeeds "alignd-install: its pod ends" pod_ends install
expect "... and alignd runs on" "$before" "$(pid_of_alignd)"
expect "... the log says so" yes "$(logged install "alignd stays on this node")"
pod_starts install first
eventually "alignd-install: is ready after a restart of its pod" ready is_ready
expect "... which has not restarted alignd" "$before" "$(pid_of_alignd)"
pod_ends install
configured=(--env "ALIGND_CONFIG=$(cat /test/good.yaml)"
  --env 'ALIGND_ARGS=--log-level=debug --plugin-grace-ms=1000')
pod_starts install first "${configured[@]}"
eventually "alignd-install: with a configuration and flags: is ready" ready is_ready
expect_part "... the configuration is in force" "CPU manager:      static" "$($top/bin/alignctl status)"
expect_part "... so are the flags" "--log-level=debug --plugin-grace-ms=1000 " \
  "$(tr '\0' ' ' <"/proc/$(pid_of_alignd)/cmdline")"
succeeds "... the former configuration is kept" test -f /etc/alignd/kubelet-config.yaml.saved
pod exclusive $exclusive 'cpu: 1, memory: 64Mi'
pod shared $shared
succeeds "... a shared pod starts" kubelet run /test/shared.yaml
succeeds "... an exclusive pod starts" kubelet run /test/exclusive.yaml
own=$(assigned_to $exclusive)
expect "... the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
note "pods run"

# --- An upgrade with running containers.
# upgrades WHAT KIND ARGUMENT...: another pod, with calls without pause.
: >/test/failed
touch /test/calling
(
  while [ -e /test/calling ]; do
    kubelet list >/test/last 2>&1 || cat /test/last >>/test/failed
  done
) &
caller=$!
before=$(pid_of_alignd) container=$(process_of $exclusive) saved=$(cat $state/cpu_manager_state)
started=$(property alignd.socket ActiveEnterTimestampMonotonic)
pod_ends install
pod_starts install next "${configured[@]}"
eventually "an upgrade with running containers: is ready" ready is_ready
if [ "$(pid_of_alignd)" = "$before" ]; then fails "... the daemon was restarted"; else passes "... the daemon was restarted"; fi
expect "... the socket was not" "$started" "$(property alignd.socket ActiveEnterTimestampMonotonic)"
expect "... the exclusive container was not restarted" "$container" "$(process_of $exclusive)"
expect "... it has its CPU" "$own" "$(cpus_of $exclusive)"
expect "... the shared pod stays off it" no "$(runs_on $shared "$own")"
expect "... the state file is the same" "$saved" "$(cat $state/cpu_manager_state)"
next=$(cat $top/installed)

# --- What must not happen: a version or a configuration that does not work.
pod_ends install
pod_starts install broken "${configured[@]}"
eventually "a version that does not start: the former one is restored" yes logged install "the former version runs again"
expect "... its pod is not ready" "not ready" "$(is_ready)"
expect "... the former version is installed" "$next" "$(cat $top/installed)"
expect "... alignd.service runs" "enabled, active" "$(unit_state alignd.service)"
eventually "... it is not tried again at once" yes logged install "trying again in 120 s"
pod_ends install
rm /test/calling
wait $caller
expect "no call failed during the upgrades" "" "$(cat /test/failed)"
before=$(pid_of_alignd)
pod_starts install next "${configured[@]}" --env "ALIGND_CONFIG=$(cat /test/good.yaml; echo "cpuManagerPolicy: unknown")"
eventually "a configuration that alignd refuses: is found before it is used" yes logged install "cpuManagerPolicy"
expect "... its pod is not ready" "not ready" "$(is_ready)"
expect "... alignd was not restarted" "$before" "$(pid_of_alignd)"
succeeds "... the configuration is the former one" cmp /test/good.yaml /etc/alignd/kubelet-config.yaml
pod_ends install
note "image upgraded"

# --- Rolling back, and attaching the kubelet.
attach=(--env ALIGND_KUBELET=attach --env ALIGND_RESTART_KUBELET=true)
rm $top/installed # as after an upgrade that was interrupted
pod_starts install first "${configured[@]}" "${attach[@]}"
eventually "an older image, after an interruption, and kubelet.attach: is ready" ready is_ready
expect_part "... the older image is installed" "$(in_pod 'cat /alignd/id')" "$(cat $top/installed)"
expect "... the kubelet has alignd as its endpoint" unix:///run/alignd/alignd.sock "$(endpoint)"
expect "... the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
before=$(property kubelet.service MainPID)
pod_ends install
pod_starts install first "${configured[@]}" "${attach[@]}"
eventually "the pod again: is ready" ready is_ready
expect "... the kubelet was not restarted again" "$before" "$(property kubelet.service MainPID)"

# --- Removing.
pod_ends install
expect "no DaemonSet: alignd runs on" "enabled, active" "$(unit_state alignd.service)"
pod_starts remove first
eventually "alignd-remove: refuses while the kubelet is attached" yes logged remove "not removed: alignctl kubelet attach has changed"
expect_part "... and says what to do" "alignctl kubelet detach" "$(cat /test/remove.log)"
eventually "... and that it goes on trying" yes logged remove "trying again every"
sleep 5
expect "... once, as long as the reason is the same" 1 "$(grep -c "not removed: " /test/remove.log)"
expect_part "... its pod is not ready" "not ready: not removed" "$(is_removed)"
expect "... alignd.service runs" "enabled, active" "$(unit_state alignd.service)"
perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1; sleep 1000' $cri &
client=$!
succeeds "the kubelet: is detached by hand" $top/bin/alignctl kubelet detach --yes --restart
eventually "alignd-remove: refuses while a program is connected" yes logged remove "a program is connected to $cri"
expect "... alignd.service runs" "enabled, active" "$(unit_state alignd.service)"
kill $client
wait $client 2>/dev/null
eventually "alignd-remove: removes alignd afterwards, by itself" "ready: removed" is_removed
expect "alignd.service: does not run" inactive "$(systemctl is-active alignd.service)"
expect "... nor is it there" "no no no" "$(for path in $unit $top $cri; do [ -e $path ] && echo yes || echo no; done | paste -s -d ' ')"
expect "the configuration and the state are left" "$saved" "$(cat /etc/alignd/kubelet-config.yaml >/dev/null && cat $state/cpu_manager_state)"
expect "the kubelet: has its former endpoint" unix:///run/containerd/containerd.sock "$(endpoint)"
expect "the exclusive container runs on" "$container" "$(process_of $exclusive)"
expect "... on its CPU" "$own" "$(cpus_of $exclusive)"
pod_ends remove

pod_starts install first "${configured[@]}" "${attach[@]}"
eventually "alignd-install: installs alignd again" ready is_ready
expect "... it continues with the assignment" "$own" "$(assigned_to $exclusive)"
expect "... the kubelet is attached" unix:///run/alignd/alignd.sock "$(endpoint)"
pod_ends install
pod_starts remove first --env ALIGND_KUBELET=detach --env ALIGND_RESTART_KUBELET=true --env ALIGND_PURGE=true
eventually "remove.detach and remove.purge: waits for the pods that have assignments" yes \
  logged remove "which still runs"
expect "... the kubelet is detached" unix:///run/containerd/containerd.sock "$(endpoint)"
expect_part "... the state is kept" "$exclusive" "$(cat $state/cpu_manager_state)"
cri=/run/containerd/containerd.sock
succeeds "... the pods are removed" kubelet remove --grace 0 exclusive shared
eventually "... and purges alignd then, by itself" "ready: removed" is_removed
pod_ends remove
expect "nothing is left of alignd" "" \
  "$(find /etc /run /usr /opt /var/lib -path /var/lib/containerd -prune -o -path /run/containerd -prune -o -name '*alignd*' -print |
    grep -v probe)"
note "image removed"

# --- Another installation stays in charge.
printf '[Service]\nExecStart=/bin/sleep 1000\n' >$unit
systemctl daemon-reload
pod_starts install next
eventually "a node with another alignd.service: the pod refuses" yes logged install "already installed on this node in another way"
expect "... and is not ready" "not ready" "$(is_ready)"
expect_part "... the unit is the same" "/bin/sleep" "$(cat $unit)"
expect "... nothing is installed" no "$(if [ -e $top/bin ]; then echo yes; else echo no; fi)"
pod_ends install
pod_starts remove first
eventually "... the pod that removes refuses, too" yes logged remove "not installed by the DaemonSet"
expect_part "... the unit is still the same" "/bin/sleep" "$(cat $unit)"
pod_ends remove
rm $unit
systemctl daemon-reload

# --- A first installation that fails leaves no unit that is started again and again.
pod_starts install broken
eventually "a first version that does not start: is removed" yes logged install "removing what was installed"
pod_ends install
expect "... no unit is left" "not-found inactive" "$(property alignd.service LoadState) $(systemctl is-active alignd.service)"
expect "... and no program" no "$(if [ -e $top/bin ]; then echo yes; else echo no; fi)"
rm -r $top # `failed`
note "image checked"
