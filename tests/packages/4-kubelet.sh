# alignd-kubelet points the kubelet at alignd.
# shellcheck shell=bash disable=SC2154

before=$(property kubelet.service MainPID)
succeeds "alignd-kubelet: installs" dpkg -i "$(package alignd-kubelet)"
expect_part "alignd-kubelet: names what is to be done" "systemctl restart kubelet" "$output"
expect "the kubelet: was not restarted" "$before" "$(property kubelet.service MainPID)"
expect "systemd: needs no reload" no "$(property kubelet.service NeedDaemonReload)"
systemctl restart kubelet.service
expect "the kubelet: has alignd as its endpoint" unix:///run/alignd/alignd.sock "$(endpoint)"
succeeds "alignd-kubelet: is removed" dpkg -r alignd-kubelet
expect "systemd: needs no reload after the removal" no "$(property kubelet.service NeedDaemonReload)"
systemctl restart kubelet.service
expect "the kubelet: has its former endpoint" unix:///run/containerd/containerd.sock "$(endpoint)"
succeeds "alignd-kubelet: is purged" dpkg --purge alignd-kubelet
