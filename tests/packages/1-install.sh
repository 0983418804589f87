# Installing alignd starts it and changes nothing else.
# shellcheck shell=bash disable=SC2154

# A node as kubeadm makes it, with a kubelet that does nothing.
mkdir -p /usr/lib/systemd/system/kubelet.service.d /var/lib/kubelet
printf '[Service]\nExecStart=/usr/bin/kubelet\n' >/usr/lib/systemd/system/kubelet.service
cat >/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf <<'UNIT'
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
UNIT
echo 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/containerd/containerd.sock"' \
  >/var/lib/kubelet/kubeadm-flags.env
printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n' >/var/lib/kubelet/config.yaml
printf '#!/bin/sh\nwhile :; do sleep 1000; done\n' >/usr/bin/kubelet
chmod +x /usr/bin/kubelet
systemctl daemon-reload
systemctl start kubelet.service
eventually "containerd: runs" active systemctl is-active containerd.service
for image in pause busybox; do
  succeeds "containerd: has the image of $image" ctr -n k8s.io images import "/test/$image.tar"
done

succeeds "alignd: installs" dpkg -i "$(package alignd)"
expect "alignd: is installed" installed "$(condition alignd)"
expect "alignd.socket: is enabled and runs" "enabled, active" "$(unit_state alignd.socket)"
expect "alignd.service: is enabled and runs" "enabled, active" "$(unit_state alignd.service)"
expect "alignd.service: was not restarted" 0 "$(property alignd.service NRestarts)"
expect "the kubelet: has no other drop-in" /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf \
  "$(property kubelet.service DropInPaths)"
systemctl restart kubelet.service
expect "the kubelet: has the runtime as its endpoint" unix:///run/containerd/containerd.sock "$(endpoint)"
succeeds "alignctl status: answers" alignctl status
expect_part "alignctl status: no CPU is assigned" "CPU manager:      none" "$output"
expect "/readyz answers on the loopback address" 200 \
  "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10271/readyz)"
expect_part "/metrics has alignd's metrics" "alignd_" "$(curl -s http://127.0.0.1:10271/metrics)"
expect "the CRI socket: only root and its group" "660 root" "$(stat -c '%a %U' $cri)"
expect "the state directory: only root and its group" "750 root" "$(stat -c '%a %U' $state)"
expect "the configuration is a conffile" /etc/alignd/kubelet-config.yaml \
  "$(dpkg-query -W -f '${Conffiles}' alignd | awk 'NF { print $1 }')"

# The administrator's configuration.
cat >/etc/alignd/kubelet-config.yaml <<'YAML'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: best-effort
kubeReserved: {cpu: 100m}
systemReserved: {cpu: 100m}
YAML
succeeds "alignd.service: restarts with another configuration" systemctl restart alignd.service
expect_part "alignctl status: the static policy" "CPU manager:      static" "$(alignctl status)"
note installed

# --- Pods. One CPU is reserved, one becomes exclusive.
exclusive=11111111-2222-3333-4444-555555555555
shared=22222222-2222-3333-4444-555555555555
pod exclusive $exclusive 'cpu: 1, memory: 64Mi'
pod shared $shared
succeeds "a shared pod starts" kubelet run /test/shared.yaml
succeeds "an exclusive pod starts" kubelet run /test/exclusive.yaml
own=$(assigned_to $exclusive)
expect_part "the assignment is on the disk" "\"$exclusive\":{\"app\":\"" "$(cat $state/cpu_manager_state)"
expect "the exclusive pod has its CPU" "$own" "$(cpus_of $exclusive)"
expect "the shared pod has left it: cgroups can be written" no "$(runs_on $shared "$own")"
note "pods run"
