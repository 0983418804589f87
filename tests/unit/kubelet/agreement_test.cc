// What must agree between the kubelet and alignd.
#include "kubelet/agreement.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kubelet/file_view.h"
#include "kubelet/words.h"
#include "kubelet_node.h"

namespace alignd::kubelet {
namespace {

class KubeletAgreement : public KubeletNodeTest {
 protected:
  void WriteAlignd(const std::string& config, const std::string& flags = "") {
    Write("/usr/lib/systemd/system/alignd.service",
          "[Service]\nExecStart=/usr/bin/alignd --config /etc/alignd/kubelet-config.yaml" + flags +
              "\n");
    Write("/etc/alignd/kubelet-config.yaml", config);
  }
  std::string Problems() const {
    const std::string out = Kubelet("status").out;
    const size_t at = out.find("problems:\n");
    return at == std::string::npos ? "" : out.substr(at);
  }
};

// `alignctl gather` reads where the files are from it, above all if alignd does not start.
TEST_F(KubeletAgreement, TheFlagsAreKnownWithoutTheConfiguration) {
  WriteAlignd("cpuManagerPolicy: [\n", " --state-dir /data/alignd --kubelet-compatibility 1.36");
  const FileView files(tree_.root());
  EXPECT_FALSE(FindAligndSetup(files).ok());
  const Result<AligndSetup> setup = FindAligndFlags(files);
  ASSERT_TRUE(setup.ok()) << setup.error().Text();
  EXPECT_TRUE(setup->has_unit);
  EXPECT_EQ(setup->config_file, "/etc/alignd/kubelet-config.yaml");
  EXPECT_EQ(setup->state_dir, "/data/alignd");
  EXPECT_EQ(setup->device_plugin_dir, "/data/alignd/device-plugins");
  EXPECT_EQ(setup->compatibility, "1.36");
}

TEST_F(KubeletAgreement, AnAligndThatDoesNotStartIsNamedAndTheEndpointShown) {
  WriteKubeadmWithFlag("");
  WriteAlignd("cpuManagerPolicy: none\n");
  ASSERT_EQ(Kubelet("attach").status, 0);
  WriteAlignd("cpuManagerPolicy: [\n");
  const testing::Printed shown = Kubelet("status");
  EXPECT_EQ(shown.status, 1);
  EXPECT_TRUE(shown.out.starts_with("state: attached\nendpoint: " + std::string(kOurs)))
      << shown.out;
  EXPECT_TRUE(Has(Problems(), "alignd does not start with its configuration: ")) << shown.out;
  EXPECT_TRUE(Has(Problems(), "    What to do: ")) << shown.out;
  EXPECT_EQ(Kubelet("detach").status, 0);
  const testing::Printed refused = Kubelet("attach");
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(Has(refused.err, "refused: alignd does not start with its configuration: "))
      << refused.err;
}

TEST_F(KubeletAgreement, AKubeletThatManagesCpusOrMemoryIsNotAttached) {
  for (const auto& [setting, message] : std::vector<std::pair<std::string, std::string>>{
           {"cpuManagerPolicy: static\n", "manages CPUs itself: cpuManagerPolicy is static"},
           {"memoryManagerPolicy: Static\n", "manages memory itself"}}) {
    WriteKubeadmWithFlag(setting);
    const Files before = All();
    const testing::Printed attached = Kubelet("attach");
    EXPECT_EQ(attached.status, 1);
    EXPECT_TRUE(Has(attached.err, "refused: the kubelet " + message)) << attached.err;
    EXPECT_EQ(All(), before);
    // `attach` would be refused: what to do is to change the policy.
    EXPECT_FALSE(Has(Kubelet("status").out, "alignctl kubelet attach")) << Kubelet("status").out;
  }
  // A flag beats the file, both ways.
  WriteKubeadmWithFlag("cpuManagerPolicy: static\n");
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cpu-manager-policy=none\n");
  EXPECT_EQ(Problems(), "");
  WriteKubeadmWithFlag("cpuManagerPolicy: none\n");
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS='--cpu-manager-policy static'\n");
  EXPECT_EQ(Kubelet("attach").status, 1);
}

// A change of the configuration file would have no effect.
TEST_F(KubeletAgreement, TheRemedyForAPolicyNamesWhereItIsSet) {
  WriteKubeadmWithFlag("cpuManagerPolicy: none\n");
  Write("/etc/systemd/system/kubelet.service.d/20-policy.conf",
        "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--cpu-manager-policy-options=a=true "
        "--cpu-manager-policy=static --topology-manager-policy best-effort\"\n");
  std::filesystem::remove(tree_.root() / "etc/default/kubelet");
  const std::string of =
      " in KUBELET_EXTRA_ARGS of "
      "/etc/systemd/system/kubelet.service.d/20-policy.conf, which overrides";
  const std::string problems = Problems();
  EXPECT_TRUE(Has(problems,
                  "What to do: set --cpu-manager-policy=none: the kubelet has "
                  "--cpu-manager-policy" +
                      of))
      << problems;
  EXPECT_TRUE(Has(problems,
                  "What to do: set --topology-manager-policy=none: the kubelet has "
                  "--topology-manager-policy" +
                      of))
      << problems;
  EXPECT_TRUE(Has(Kubelet("attach").err, "--cpu-manager-policy" + of));
  // Of several configuration files, the last one decides.
  Write("/usr/lib/systemd/system/kubelet.service.d/20-dir.conf",
        "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d\"\n");
  std::filesystem::remove_all(tree_.root() / "etc/systemd");
  Write("/etc/kubelet.d/10-policy.conf", "memoryManagerPolicy: Static\n");
  EXPECT_TRUE(Has(Problems(), "set memoryManagerPolicy: None in /etc/kubelet.d/10-policy.conf;"))
      << Problems();
}

TEST_F(KubeletAgreement, AStateFileWithWhichTheKubeletDoesNotStart) {
  WriteKubeadmWithFlag();
  Write("/var/lib/kubelet/cpu_manager_state", R"({"policyName":"none","defaultCpuSet":""})");
  EXPECT_EQ(Problems(), "");
  Write("/var/lib/kubelet/cpu_manager_state", R"({"policyName":"static","defaultCpuSet":"0-3"})");
  EXPECT_EQ(Kubelet("attach").status, 1);
  EXPECT_TRUE(Has(Problems(), "does not start with it")) << Problems();
}

TEST_F(KubeletAgreement, ATopologyPolicyIsReportedAndAttached) {
  WriteKubeadmWithFlag("topologyManagerPolicy: single-numa-node\n");
  EXPECT_TRUE(Has(Problems(), "topologyManagerPolicy is single-numa-node")) << Problems();
  const testing::Printed attached = Kubelet("attach");
  EXPECT_EQ(attached.status, 0);
  EXPECT_TRUE(Has(attached.out,
                  "What to do: set topologyManagerPolicy: none in "
                  "/var/lib/kubelet/config.yaml"))
      << attached.out;
}

TEST_F(KubeletAgreement, ReservedCpusMustBeTheSame) {
  const auto reserved = [this](const std::string& kubelet, const std::string& alignd) {
    WriteKubeadmWithFlag(kubelet);
    WriteAlignd("cpuManagerPolicy: static\n" + alignd);
    return Problems();
  };
  EXPECT_EQ(reserved("reservedSystemCPUs: 0,1\n", "reservedSystemCPUs: \"0-1\"\n"), "");
  EXPECT_EQ(reserved("systemReserved: {cpu: 500m}\nkubeReserved: {cpu: \"1.5\"}\n",
                     "kubeReserved: {cpu: \"2\"}\n"),
            "");
  EXPECT_EQ(reserved("systemReserved: {cpu: \"2\"}\n", "reservedSystemCPUs: \"0-1\"\n"), "");
  const std::string none = reserved("", "reservedSystemCPUs: \"0-1\"\n");
  EXPECT_TRUE(Has(none, "the kubelet reserves 0m CPU, alignd CPUs 0-1 (2000m CPU)")) << none;
  EXPECT_TRUE(Has(none, "set the same reservedSystemCPUs")) << none;
  EXPECT_TRUE(Has(none, "the scheduler places pods for CPUs that alignd does not allocate"))
      << none;
  EXPECT_TRUE(Has(reserved("reservedSystemCPUs: 2,3\n", "reservedSystemCPUs: \"0-1\"\n"),
                  "CPUs 2-3 (2000m CPU), alignd CPUs 0-1"));
  EXPECT_TRUE(Has(reserved("systemReserved: {cpu: \"1\"}\n", "kubeReserved: {cpu: \"2\"}\n"),
                  "the kubelet reserves 1000m CPU, alignd 2000m CPU"));
  WriteKubeadmWithFlag();
  WriteAlignd("cpuManagerPolicy: static\nkubeReserved: {cpu: \"2\"}\n");
  Write("/etc/default/kubelet",
        "KUBELET_EXTRA_ARGS=\"--system-reserved=cpu=1,memory=1Gi --kube-reserved=cpu=1\"\n");
  EXPECT_EQ(Problems(), "");
  Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--reserved-cpus=0\n");
  EXPECT_TRUE(Has(Problems(), "CPUs 0 (1000m CPU), alignd 2000m CPU")) << Problems();
  WriteAlignd("cpuManagerPolicy: none\n");  // alignd allocates no CPUs
  EXPECT_EQ(Problems(), "");
}

TEST_F(KubeletAgreement, BothMustUseTheSameRuntime) {
  WriteKubeadmWithFlag();
  WriteAlignd("cpuManagerPolicy: none\n", " --runtime-endpoint unix:///run/crio/crio.sock");
  const testing::Printed attached = Kubelet("attach");
  EXPECT_EQ(attached.status, 1);
  EXPECT_TRUE(Has(attached.err, "alignd the one at unix:///run/crio/crio.sock")) << attached.err;
  WriteAlignd("cpuManagerPolicy: none\n", " --listen unix:///run/other/alignd.sock");
  ASSERT_EQ(Kubelet("attach").status, 0);
  EXPECT_TRUE(Has(Read("/etc/default/kubelet"), "unix:///run/other/alignd.sock"));
  EXPECT_EQ(Problems(), "");  // the runtime is known from the record
}

TEST_F(KubeletAgreement, CgroupDriversMustBeTheSame) {
  WriteKubeadmWithFlag();
  const std::string options = "[plugins.x.options]\n  SystemdCgroup = ";
  Write("/etc/containerd/config.toml", options + "true\n");
  EXPECT_EQ(Problems(), "");
  Write("/etc/containerd/config.toml", options + "false # default\n");
  EXPECT_TRUE(Has(Problems(), "cgroup driver is systemd, containerd's is cgroupfs")) << Problems();
}

TEST(KubeletWords, AreSplitAndQuotedAsSystemdDoes) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(SplitWords(" a 'b c' \"d \\\" e\"f g\\ h "), (Words{"a", "b c", "d \" ef", "g h"}));
  const auto lines = ParseEnvironmentFile("# x=1\n;y=2\n A = ' b c ' \nB=a\\\nb  \nC\nD=\"x\ny\"");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].name, "A");
  EXPECT_EQ(lines[0].value, "b c ");
  EXPECT_EQ(lines[1].value, "ab");
  EXPECT_EQ(lines[2].value, "x\ny");
  // Between double quotes, a backslash stays before what needs none.
  const auto quoted =
      ParseEnvironmentFile("A=\"a\\b \\\"c \\\\d \\$e \\`f g\\\nh\"\nB='\\$x'\nC=\\b");
  ASSERT_EQ(quoted.size(), 3U);
  EXPECT_EQ(quoted[0].value, "a\\b \"c \\d $e `f gh");
  EXPECT_EQ(quoted[1].value, "\\$x");
  EXPECT_EQ(quoted[2].value, "b");
  EXPECT_EQ(WithVariable("A=1\nB=2", "C", "x y"), "A=1\nB=2\nC=\"x y\"\n");
  EXPECT_EQ(WithVariable("A=1 # no comment\nA='2'\nB=3\n", "A", "$4"),
            "A=1 # no comment\nA=\"\\$4\"\nB=3\n");
  const std::string flag = "--container-runtime-endpoint";
  EXPECT_EQ(WithFlag("", flag, "x"), flag + "=x");
  EXPECT_EQ(WithFlag("kubelet " + flag + "=a " + flag + " 'b c' --v=2", flag, "x"),
            "kubelet " + flag + "=a " + flag + " x --v=2");
  EXPECT_EQ(WithFlag(flag + "=a --v=2", flag, std::nullopt), "--v=2");
  EXPECT_EQ(WithFlag("--v=2 \"" + flag + "=a\"", flag, "x"), "--v=2 \"" + flag + "=x\"");
}

}  // namespace
}  // namespace alignd::kubelet
