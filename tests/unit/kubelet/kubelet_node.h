// Trees of files as kubeadm and others lay them out, and `alignctl kubelet` on them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/kubelet_command.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"

namespace alignd::kubelet {

inline constexpr char kOurs[] = "unix:///run/alignd/alignd.sock";
inline constexpr char kContainerd[] = "unix:///var/run/containerd/containerd.sock";

class KubeletNodeTest : public ::testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  void Write(const std::string& path, const std::string& text) {
    tree_.Write({path.substr(1), text});
  }

  // The unit of the kubelet's package and kubeadm's drop-in. `defaults`: /etc/default/kubelet of
  // Debian, /etc/sysconfig/kubelet of RPM packages.
  void WriteKubeadmUnit(const std::string& defaults = "/etc/default/kubelet") {
    Write("/usr/lib/systemd/system/kubelet.service",
          "[Unit]\nDescription=kubelet: The Kubernetes Node Agent\n\n[Service]\n"
          "ExecStart=/usr/bin/kubelet\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n");
    Write("/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
          "# Works with kubeadm\n[Service]\n"
          "Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/b.conf "
          "--kubeconfig=/etc/kubernetes/kubelet.conf\"\n"
          "Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n"
          "# made by kubeadm init and join\n"
          "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n"
          "EnvironmentFile=-" +
              defaults +
              "\n"
              "ExecStart=\n"
              "ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS "
              "$KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n");
  }
  // kubeadm 1.29 to 1.35: the endpoint is a flag.
  void WriteKubeadmWithFlag(const std::string& more_config = "") {
    WriteKubeadmUnit();
    Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\n");
    Write("/var/lib/kubelet/kubeadm-flags.env",
          "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=" + std::string(kContainerd) +
              " --pod-infra-container-image=registry.k8s.io/pause:3.9\"\n");
    Write("/var/lib/kubelet/config.yaml",
          "apiVersion: kubelet.config.k8s.io/v1beta1\ncgroupDriver: systemd\n"
          "kind: KubeletConfiguration\n" +
              more_config);
  }
  // kubeadm 1.36 and later: the endpoint is a field, also of the node's own file.
  void WriteKubeadmWithField() {
    WriteKubeadmUnit();
    Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\n");
    Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"\"\n");
    Write("/var/lib/kubelet/config.yaml",
          "apiVersion: kubelet.config.k8s.io/v1beta1\nclusterDNS:\n- 10.96.0.10\n"
          "containerRuntimeEndpoint: " +
              std::string(kContainerd) +
              "\n"
              "kind: KubeletConfiguration\n");
    Write("/var/lib/kubelet/instance-config.yaml",
          "apiVersion: kubelet.config.k8s.io/v1beta1\n"
          "containerRuntimeEndpoint: " +
              std::string(kContainerd) +
              "\n"
              "kind: KubeletConfiguration\n");
  }

  testing::Printed Kubelet(const std::string& command, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"kubelet", command, "--root", tree_.root().string()};
    if (command != "status") arguments.push_back("--yes");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::RunAlignctl({cli::AddKubeletCommand}, arguments);
  }

  std::string Read(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(tree_.root() / path.substr(1)).rdbuf();
    return text.str();
  }

  // All files but alignd's own.
  Files All() const {
    namespace fs = std::filesystem;
    Files files;
    for (const auto& entry : fs::recursive_directory_iterator(tree_.root())) {
      const std::string path = "/" + entry.path().lexically_relative(tree_.root()).string();
      if (entry.is_regular_file() && !path.starts_with("/var/lib/alignd/kubelet")) {
        files[path] = Read(path);
      }
    }
    return files;
  }

  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  // Attaches, and detaches again: everything is as before.
  void ExpectAttachAndDetach(const std::string& source) {
    const Files before = All();
    EXPECT_EQ(Kubelet("status").status, 1);
    const testing::Printed attached = Kubelet("attach");
    ASSERT_EQ(attached.status, 0) << attached.out << attached.err;
    const testing::Printed status = Kubelet("status");
    EXPECT_EQ(status.status, 0) << status.out;
    EXPECT_TRUE(Has(status.out, "state: attached\nendpoint: " + std::string(kOurs) + " (" + source))
        << status.out;
    const Files with = All();
    const testing::Printed again = Kubelet("attach");
    EXPECT_EQ(again.status, 0);
    EXPECT_TRUE(Has(again.out, "attached already")) << again.out;
    EXPECT_EQ(All(), with);
    const testing::Printed detached = Kubelet("detach");
    EXPECT_EQ(detached.status, 0) << detached.out << detached.err;
    EXPECT_EQ(All(), before);
    EXPECT_EQ(Kubelet("detach").status, 0);
  }

  testing::FakeTree tree_;
};

}  // namespace alignd::kubelet
