// The kubelet's managers: how they are read, and how they are turned off.
#include "kubelet/policies.h"

#include "kubelet/attachment.h"
#include "kubelet_node.h"

namespace alignd::kubelet {
namespace {

class KubeletPolicies : public KubeletNodeTest {
 protected:
  kubelet::Setup Found() const {
    Result<kubelet::Setup> setup = FindSetup(FileView(tree_.root()), "kubelet.service");
    EXPECT_TRUE(setup.ok()) << setup.error().Text();
    return *std::move(setup);
  }

  void WriteExtraArguments(const std::string& arguments) {
    Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=\"" + arguments + "\"\n");
  }
};

TEST_F(KubeletPolicies, FlagsWinOverFields) {
  WriteKubeadmWithFlag("cpuManagerPolicy: none\nreservedSystemCPUs: \"0\"\n");
  WriteExtraArguments(
      "--cpu-manager-policy=static --reserved-cpus=0,4 --kube-reserved=cpu=1,memory=1Gi "
      "--eviction-hard=memory.available<5%,nodefs.available<10% "
      "--cpu-manager-policy-options=full-pcpus-only=true "
      "--feature-gates=PodLevelResourceManagers=true");
  const Result<KubeletConfig> config = ConfigOf(Found());
  ASSERT_TRUE(config.ok()) << config.error().Text();
  EXPECT_EQ(config->cpu_manager_policy, CpuManagerPolicy::kStatic);
  EXPECT_EQ(config->reserved_system_cpus, "0,4");
  EXPECT_EQ(config->kube_reserved.at("memory").ToString(), "1Gi");
  EXPECT_EQ(config->eviction_hard_memory, "5%");
  EXPECT_EQ(config->cpu_manager_policy_options.at("full-pcpus-only"), "true");
  EXPECT_TRUE(config->feature_gates.at("PodLevelResourceManagers"));
  WriteExtraArguments("--reserved-memory=0:memory=1Gi");
  EXPECT_FALSE(ConfigOf(Found()).ok());
}

TEST_F(KubeletPolicies, AreTurnedOffTogetherWithTheEndpointAndRestored) {
  WriteKubeadmWithField();
  const std::string managed = Read("/var/lib/kubelet/config.yaml") +
                              "# of the administrator\ncpuManagerPolicy: static  # NUMA\n"
                              "cpuManagerPolicyOptions:\n  full-pcpus-only: \"true\"\n"
                              "  strict-cpu-reservation: \"true\"\nmaxPods: 110\n"
                              "memoryManagerPolicy: Static\ntopologyManagerPolicy: restricted\n";
  Write("/var/lib/kubelet/config.yaml", managed);
  const Files before = All();
  const FileView files(tree_.root());
  const kubelet::Setup setup = Found();
  Result<std::vector<Change>> changes = PlanAttach(files, setup, kOurs);
  ASSERT_TRUE(changes.ok());
  const size_t count = changes->size();
  changes = PlanWithoutManagers(files, setup, *std::move(changes));
  ASSERT_TRUE(changes.ok()) << changes.error().Text();
  EXPECT_EQ(changes->size(), count);
  ASSERT_TRUE(
      Attach(files, std::nullopt, {.endpoint = kOurs, .runtime = kContainerd, .changes = *changes})
          .ok());
  const std::string text = Read("/var/lib/kubelet/config.yaml");
  EXPECT_TRUE(Has(text, "# of the administrator\ncpuManagerPolicy: none # NUMA\nmaxPods: 110\n"))
      << text;
  EXPECT_FALSE(Has(text, "full-pcpus-only"));
  const Result<KubeletConfig> off = ConfigOf(Found());
  ASSERT_TRUE(off.ok());
  EXPECT_EQ(off->topology_manager_policy, TopologyManagerPolicy::kNone);
  EXPECT_EQ(off->memory_manager_policy, MemoryManagerPolicy::kNone);
  ASSERT_EQ(Kubelet("detach").status, 0);
  EXPECT_EQ(All(), before);
}

TEST_F(KubeletPolicies, WhatOnlyTheOperatorCanChangeIsNamed) {
  WriteKubeadmWithFlag("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n");
  WriteExtraArguments("--topology-manager-policy=restricted");
  const auto by_flag = PlanWithoutManagers(FileView(tree_.root()), Found(), {});
  ASSERT_FALSE(by_flag.ok());
  EXPECT_TRUE(Has(by_flag.error().Text(), "move --topology-manager-policy into the file"));
  WriteExtraArguments("--config-dir=/etc/kubelet.d");
  Write("/etc/kubelet.d/10-numa.conf", "cpuManagerPolicy: static\n");
  const auto by_directory = PlanWithoutManagers(FileView(tree_.root()), Found(), {});
  ASSERT_FALSE(by_directory.ok());
  EXPECT_TRUE(Has(by_directory.error().Text(), "/etc/kubelet.d"));
}

TEST_F(KubeletPolicies, AKubeletWithoutManagersStaysAsItIs) {
  WriteKubeadmWithFlag();
  const auto none = PlanWithoutManagers(FileView(tree_.root()), Found(), {});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace alignd::kubelet
