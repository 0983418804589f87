# Removing and purging.
# shellcheck shell=bash disable=SC2154

# A connected client, as a kubelet.
perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or exit 1; sleep 1000' $cri &
client=$!
eventually "a client is connected" yes sh -c "awk '\$6 == \"03\" && \$8 == \"$cri\"' /proc/net/unix | grep -q . && echo yes"
refuses "alignd: is not removed while a kubelet is connected" dpkg -r alignd
expect_part "... and says what to do" "remove alignd-kubelet" "$output"
expect "... and goes on" active "$(systemctl is-active alignd.service)"
kill $client
wait $client 2>/dev/null
gone() { awk -v path=$cri '$6 == "03" && $8 == path' /proc/net/unix | grep -q . || echo gone; }
eventually "the client is disconnected" gone gone

container=$(process_of $exclusive)
succeeds "alignd: is removed" dpkg -r alignd
expect "alignd: its configuration is left" config-files "$(condition alignd)"
expect "alignd.service: does not run" inactive "$(systemctl is-active alignd.service)"
expect "alignd.socket: does not listen" inactive "$(systemctl is-active alignd.socket)"
expect "the CRI socket is gone" no "$(if [ -e $cri ]; then echo yes; else echo no; fi)"
expect "the exclusive container runs on" "$container" "$(process_of $exclusive)"
expect "... on its CPU" "$own" "$(cpus_of $exclusive)"
succeeds "alignd: is purged while its pods run" dpkg --purge alignd
expect_part "... and keeps the state, naming the pod" "$exclusive" "$output"
expect_part "... and says how to delete it" "drain the node and run: rm -r $state" "$output"
expect_part "... the state is there" "$exclusive" "$(cat $state/cpu_manager_state)"
expect "... the configuration is gone" no "$(if [ -e /etc/alignd ]; then echo yes; else echo no; fi)"

mkdir -p /etc/alignd && cp /test/good.yaml /etc/alignd/kubelet-config.yaml
succeeds "alignd: is installed again, with the former configuration" \
  dpkg --force-confold -i "$(package alignd)"
for unit in alignd-events.service alignd-extender.service; do
  expect "... $unit can be enabled" disabled "$(systemctl is-enabled $unit)"
done
expect "... it continues with the assignment" "$own" "$(assigned_to $exclusive)"
succeeds "... the pods can be removed" kubelet remove --grace 0 exclusive shared
released() { assigned_to $exclusive; }
eventually "... the assignment is released" "" released
succeeds "alignd: is purged without pods" dpkg --purge alignd
expect "... nothing is left of its files" "" \
  "$(find /etc /run /usr /var/lib -path /var/lib/containerd -prune -o -name '*alignd*' -print 2>/dev/null |
    grep -v probe)"
expect "... nor in dpkg" absent "$(condition alignd)"
expect "... containerd still runs" active "$(systemctl is-active containerd.service)"
note removed
