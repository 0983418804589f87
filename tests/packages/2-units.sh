# The units: socket activation, restarts, watchdog, and what the service may not do.
# shellcheck shell=bash disable=SC2154

# --- Socket activation: a call starts the service.
succeeds "alignd.service: stops" systemctl stop alignd.service
expect "alignd.socket: still listens" "enabled, active" "$(unit_state alignd.socket)"
expect_part "a call of the kubelet starts alignd and is answered" "$exclusive" "$(kubelet list 2>&1; cat $state/cpu_manager_state)"
expect "alignd.service: runs again" active "$(systemctl is-active alignd.service)"

# --- A crash.
before=$(pid_of_alignd)
signal KILL "$before"
succeeds "after SIGKILL: the kubelet's next call is answered" kubelet list
expect_part "after SIGKILL: systemd has restarted alignd" 1 "$(property alignd.service NRestarts)"

# --- Watchdog. The unit's 30 s and 15 s would only take longer.
mkdir -p /run/systemd/system/alignd.service.d
printf '[Service]\nWatchdogSec=4\nTimeoutAbortSec=2\n' >/run/systemd/system/alignd.service.d/test.conf
expect "alignd.service: has a watchdog" 30s "$(property alignd.service WatchdogUSec)"
systemctl daemon-reload
systemctl restart alignd.service
before=$(pid_of_alignd)
sleep 5
expect "the watchdog: alignd answers it" "$before" "$(pid_of_alignd)"
signal STOP "$before"
replaced() { [ "$(pid_of_alignd)" != "$before" ] && systemctl is-active alignd.service; }
eventually "the watchdog: a process that hangs is replaced" active replaced
expect_part "the watchdog: the journal has it" "Watchdog timeout" "$(journalctl --no-pager -u alignd.service)"
rm -r /run/systemd/system/alignd.service.d
systemctl daemon-reload
systemctl restart alignd.service
expect "after all restarts: the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
expect_part "after all restarts: alignd knows it" "$exclusive" "$(cat $state/cpu_manager_state)"

# --- Hardening: the service's own sandbox, with a probe instead of alignd. What the machine
# denies outside the sandbox too, shows nothing about the unit.
mkdir -p /test/mount
touch /root/alignd-probe
mknod /dev/alignd-probe c 1 3
outside=$(bash /test/probe.sh)
sed -e 's|^ExecStart=.*|ExecStart=/bin/bash /test/probe.sh|' -e 's/^Type=.*/Type=oneshot/' \
  -e '/^Restart/d' -e '/^WatchdogSec/d' -e '/^NotifyAccess/d' -e '/^Requires=/d' \
  /usr/lib/systemd/system/alignd.service >/run/systemd/system/alignd-probe.service
systemctl daemon-reload
succeeds "the probe runs in the service's sandbox" systemctl start alignd-probe.service
probed=$(journalctl --no-pager -o cat -u alignd-probe.service)
while read -r wanted what; do
  if [[ $outside == *"probe: $what: denied"* ]]; then
    passes "the service: $what: $wanted # SKIP this machine denies it in any case"
    continue
  fi
  expect_part "the service: $what: $wanted" "probe: $what: $wanted" "$probed"
done <<'LIST'
denied write below /usr
denied write below /etc
denied write below /var
denied write to /proc/sys
denied load a kernel module
denied mount a file system
denied make a namespace
denied make a device node
denied set the host name
denied set the clock
denied open a netlink socket
denied see files of /root
denied see devices
allowed write to /var/lib/alignd
allowed write to /run/alignd
allowed write to a cgroup
allowed connect to the runtime
allowed listen on the loopback address
LIST
fact() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(pid_of_alignd)/status"; }
expect "the service: no new privileges" 1 "$(fact NoNewPrivs)"
expect "the service: filters system calls" 2 "$(fact Seccomp)"
# CAP_DAC_OVERRIDE: bit 1.
expect "the service: has one capability" 0000000000000002 "$(fact CapBnd)"
expect "the service: has no other capability" 0000000000000002 "$(fact CapEff)"
# systemd's own measure, from 0 (sees nothing) to 10. The threshold is in tenths.
for unit in alignd alignd-events alignd-extender; do
  succeeds "$unit.service: its exposure is at most 2.0" \
    systemd-analyze security --no-pager --threshold=20 "$unit.service"
done

# --- A changed configuration: the service writes it, with the rights that it has.
config=/etc/alignd/kubelet-config.yaml
cp -p $config /test/config.before
{
  grep -v '^topologyManagerPolicy:' $config
  echo "topologyManagerPolicy: best-effort"
} >/test/config.next
before=$(pid_of_alignd)
chown 1000:1000 $config
refuses "apply: does not replace a configuration of another owner" alignctl apply --config /test/config.next
expect_part "... and says why" "belongs to user 1000, group 1000" "$output"
expect "... alignd goes on" "$before" "$(pid_of_alignd)"
expect "... with the former configuration" "$(cat /test/config.before)" "$(cat $config)"
chown root:root $config
succeeds "apply: replaces the configuration" alignctl apply --config /test/config.next
expect "... by the new one" "$(cat /test/config.next)" "$(cat $config)"
succeeds "apply: and back" alignctl apply --config /test/config.before
printf 'topologyManagerPolicy: [' >$config
refuses "reload: of a configuration that cannot be read fails" systemctl reload alignd.service
expect_part "... the journal says why" "$config" "$(journalctl --no-pager -o cat -u alignd.service | tail -n 5)"
# The status of a degraded node is not 0.
not_applied() { { alignctl status || true; } 2>&1 | grep -o ConfigurationNotApplied | sort -u; }
eventually "... and the status" ConfigurationNotApplied not_applied
cat /test/config.next >$config
succeeds "reload: applies the file" systemctl reload alignd.service
expect_part "... with its policy" best-effort "$(alignctl status 2>&1)"
cat /test/config.before >$config
succeeds "reload: and back" systemctl reload alignd.service
expect "... it is as before" "$(cat /test/config.before)" "$(cat $config)"
expect "... and the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
note "units checked"
