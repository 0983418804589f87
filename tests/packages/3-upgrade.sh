# Upgrading with running containers.
# shellcheck shell=bash disable=SC2154

# Calls without pause. Each failure is a line in /test/failed.
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
succeeds "alignd: upgrades with running containers" dpkg --force-confdef --force-confold -i /test/packages/next.deb
note "$(pid_of_alignd) after $before"
if [ "$(pid_of_alignd)" = "$before" ]; then fails "the daemon was restarted"; else passes "the daemon was restarted"; fi
expect "alignd.service: runs" "enabled, active" "$(unit_state alignd.service)"
expect "alignd.socket: was not restarted" "$started" "$(property alignd.socket ActiveEnterTimestampMonotonic)"
succeeds "calls after the upgrade are answered" kubelet list
rm /test/calling
wait $caller
expect "no call failed during the upgrade" "" "$(cat /test/failed)"
expect "the exclusive container was not restarted" "$container" "$(process_of $exclusive)"
expect "the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
expect "the shared pod stays off it" no "$(runs_on $shared "$own")"
expect "the state file is the same" "$saved" "$(cat $state/cpu_manager_state)"
expect_part "the configuration is the administrator's" "cpuManagerPolicy: static" \
  "$(cat /etc/alignd/kubelet-config.yaml)"

# The version before, with the containers that run.
before=$(pid_of_alignd)
succeeds "alignd: goes back to the version before" dpkg --force-confold -i "$(package alignd)"
if [ "$(pid_of_alignd)" = "$before" ]; then fails "... it was restarted"; else passes "... it was restarted"; fi
succeeds "... calls are answered" kubelet list
expect "... the exclusive container was not restarted" "$container" "$(process_of $exclusive)"
expect "... the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
expect "... the state file is the same" "$saved" "$(cat $state/cpu_manager_state)"

# What the administrator has switched off stays off.
systemctl disable --now alignd.socket alignd.service 2>/dev/null
succeeds "a disabled alignd: is upgraded" dpkg --force-confold -i /test/packages/next.deb
expect "a disabled alignd.service: stays disabled" disabled "$(systemctl is-enabled alignd.service)"
expect "a disabled alignd.socket: stays disabled" disabled "$(systemctl is-enabled alignd.socket)"
systemctl enable --now alignd.socket alignd.service 2>/dev/null

# A configuration that alignd refuses: the installation fails, with the reason and what to do.
cp /etc/alignd/kubelet-config.yaml /test/good.yaml
echo "cpuManagerPolicy: unknown" >>/etc/alignd/kubelet-config.yaml
refuses "a configuration that alignd refuses: the upgrade fails" dpkg --force-confold -i /test/packages/next.deb
expect_part "... and says where the reason is" "journalctl -u alignd.service" "$output"
cp /test/good.yaml /etc/alignd/kubelet-config.yaml
succeeds "... and is completed after the repair" dpkg --force-confold --configure alignd
expect "... alignd.service runs" active "$(systemctl is-active alignd.service)"
expect "... the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
note upgraded
