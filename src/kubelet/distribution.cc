#include "kubelet/distribution.h"

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

struct Known {
  std::string_view name;
  std::array<std::string_view, 2> files;  // one of them is there
  std::string_view by_hand;
};

constexpr std::array<Known, 7> kKnown = {{
    {"K3s",
     {"/etc/systemd/system/k3s.service", "/etc/systemd/system/k3s-agent.service"},
     "add `kubelet-arg: [\"container-runtime-endpoint=unix:///run/alignd/alignd.sock\"]` to "
     "/etc/rancher/k3s/config.yaml, start alignd with --runtime-endpoint "
     "unix:///run/k3s/containerd/containerd.sock, and restart k3s or k3s-agent; do not use the "
     "option container-runtime-endpoint of K3s itself, which turns off its containerd"},
    {"RKE2",
     {"/usr/local/lib/systemd/system/rke2-agent.service",
      "/usr/lib/systemd/system/rke2-agent.service"},
     "add `kubelet-arg: [\"container-runtime-endpoint=unix:///run/alignd/alignd.sock\"]` to "
     "/etc/rancher/rke2/config.yaml, start alignd with --runtime-endpoint "
     "unix:///run/k3s/containerd/containerd.sock, and restart rke2-server or rke2-agent"},
    {"MicroK8s",
     {"/var/snap/microk8s/current/args/kubelet", "/snap/microk8s/current"},
     "set --container-runtime-endpoint=unix:///run/alignd/alignd.sock in "
     "/var/snap/microk8s/current/args/kubelet, start alignd with --runtime-endpoint "
     "unix:///var/snap/microk8s/common/run/containerd.sock, and restart "
     "snap.microk8s.daemon-kubelite"},
    {"k0s",
     {"/etc/systemd/system/k0sworker.service", "/etc/systemd/system/k0scontroller.service"},
     "add --kubelet-extra-args=--container-runtime-endpoint=unix:///run/alignd/alignd.sock to the "
     "arguments of k0s (k0s install worker --force), start alignd with --runtime-endpoint "
     "unix:///run/k0s/containerd.sock, and restart k0sworker"},
    {"Talos",
     {"/etc/talos-version", "/system/state/config.yaml"},
     "Talos runs no services of the host: alignd cannot be installed there"},
    {"MicroShift",
     {"/usr/lib/systemd/system/microshift.service", "/etc/microshift/config.yaml"},
     "the kubelet of MicroShift is a part of the process microshift, and its endpoint cannot be "
     "changed: alignd cannot be used there"},
    {"OpenShift",
     {"/etc/machine-config-daemon/currentconfig", "/etc/machine-config-daemon"},
     "the Machine Config Operator restores the files of this node: set "
     "--container-runtime-endpoint of kubelet.service in a MachineConfig"},
}};

std::string IdOfSystem(const FileView& files) {
  const auto text = files.Read("/etc/os-release");
  if (!text.ok() || !*text) return "";
  for (const EnvironmentLine& line : ParseEnvironmentFile(**text)) {
    if (line.name == "ID") return line.value;
  }
  return "";
}

}  // namespace

std::optional<Distribution> FindDistribution(const FileView& files,
                                             const std::optional<Unit>& unit) {
  const std::string system = IdOfSystem(files);
  if (system == "talos") return Distribution{"Talos", std::string(kKnown[4].by_hand)};
  if (system == "bottlerocket") {
    return Distribution{"Bottlerocket",
                        "its root file system is read-only and its kubelet is configured by its "
                        "API only: alignd cannot be installed there"};
  }
  for (const Known& known : kKnown) {
    for (const std::string_view file : known.files) {
      if (!files.Exists(std::string(file))) continue;
      return Distribution{std::string(known.name), std::string(known.by_hand)};
    }
  }
  if (!unit) return std::nullopt;
  const std::vector<std::string> words = SplitWords(unit->exec_start);
  std::string program = words.empty() ? "" : words[0];
  program.erase(0, std::min(program.find_first_not_of("@-:+!"), program.size()));
  if (std::filesystem::path(program).filename() == "kubelet") return std::nullopt;
  return Distribution{
      "a unit that starts `" + program + "`",
      "alignd does not know how this program starts the kubelet: give the kubelet the flag "
      "--container-runtime-endpoint=unix:///run/alignd/alignd.sock, and restart it"};
}

}  // namespace alignd::kubelet
