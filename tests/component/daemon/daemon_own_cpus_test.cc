// Pods that ask by annotation how their CPUs lie on cores, what they stay away from, and which CPUs
// they get, over real sockets: on a node with two NUMA nodes of four cores with two CPUs each.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "alignd/pod/pod_policies.h"
#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr char kAllChoosing[] =
    "podPolicies: [cpuBindPolicy, cpuExclusivePolicy, resourceStatus]\n";
constexpr char kFullSpec[] = R"({"requiredCPUBindPolicy":"FullPCPUs"})";
constexpr char kSpreadSpec[] =
    R"({"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"})";

std::string SmtNode() {
  std::string rows;
  for (int cpu = 0; cpu < 16; ++cpu) {
    const std::string numa = std::to_string(cpu / 8);
    rows += (cpu == 0 ? "[" : ",[") + std::to_string(cpu) + "," + std::to_string(cpu / 2 * 2) +
            "," + numa + "," + numa + "," + numa + "]";
  }
  const std::string memory = R"("memory":67645734912,"distances":)";
  return "{\"cpus\":[" + rows + R"(],"numa":[{"id":0,)" + memory + R"([10,21]},{"id":1,)" + memory +
         "[21,10]}]}";
}

v1::PodSandboxConfig PodWith(const std::string& uid, std::string_view annotation,
                             const std::string& value) {
  v1::PodSandboxConfig pod = PodConfig(uid);
  (*pod.mutable_annotations())[std::string(annotation)] = value;
  return pod;
}

v1::PodSandboxConfig PodOfSpec(const std::string& uid, const std::string& value) {
  return PodWith(uid, kResourceSpecAnnotation, value);
}

v1::PodSandboxConfig PodOfStatus(const std::string& uid, const std::string& value) {
  return PodWith(uid, kResourceStatusAnnotation, value);
}

class DaemonOwnCpus : public DaemonTest {
 protected:
  DaemonOwnCpus() { tree_.Write({"node.json", SmtNode()}); }

  std::string RefusalOf(const v1::PodSandboxConfig& pod, int cpus) const {
    const grpc::Status status = Create(Run(pod), pod, Pinned(cpus)).status;
    EXPECT_FALSE(status.ok());
    return status.error_message();
  }

  std::string Place(const v1::PodSandboxConfig& pod, int cpus) const {
    return CpusOf(RunOne(pod, Pinned(cpus)).container);
  }
};

TEST_F(DaemonOwnCpus, LieOnCoresAsThePodRequires) {
  Start(StaticConfig(kAllChoosing));
  EXPECT_EQ(Place(PodOfSpec("spread", kSpreadSpec), 3), "1-2,4");
  EXPECT_EQ(Place(PodOfSpec("full", kFullSpec), 2), "6-7");
  EXPECT_EQ(Place(PodConfig("plain"), 1), "3");
  const std::string odd = RefusalOf(PodOfSpec("odd", kFullSpec), 3);
  EXPECT_NE(odd.find("SMTAlignmentError: SMT Alignment Error: requested 3 cpus not multiple cpus "
                     "per core = 2"),
            std::string::npos)
      << odd;
  EXPECT_NE(odd.find("requiredCPUBindPolicy FullPCPUs of annotation "
                     "scheduling.koordinator.sh/resource-spec"),
            std::string::npos)
      << odd;
  const std::string unknown = RefusalOf(PodOfSpec("u", R"({"requiredCPUBindPolicy":"Full"})"), 2);
  EXPECT_NE(unknown.find("PodPolicyError: annotation scheduling.koordinator.sh/resource-spec: "
                         "requiredCPUBindPolicy: \"Full\" is not \"FullPCPUs\", \"SpreadByPCPUs\", "
                         "\"Default\" or \"\""),
            std::string::npos)
      << unknown;
}

// The state files have neither policy. The sandboxes of the pods have them.
TEST_F(DaemonOwnCpus, AreKnownAgainAfterARestart) {
  Start(StaticConfig(kAllChoosing));
  const Running full = RunOne(PodOfSpec("full", kFullSpec), Pinned(2));
  ASSERT_EQ(CpusOf(full.container), "2-3");
  ASSERT_EQ(Place(PodOfSpec("spread", kSpreadSpec), 2), "1,4");
  StopDaemon();
  StartDaemon(StaticConfig(kAllChoosing));
  // Not on CPU 5, whose core the other pod with PCPULevel is on.
  EXPECT_EQ(Place(PodOfSpec("next", kSpreadSpec), 1), "6");
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(full.container);
  *request.mutable_linux() = Pinned(3).linux().resources();
  const grpc::Status odd = Update(request);
  EXPECT_NE(odd.error_message().find("requiredCPUBindPolicy FullPCPUs"), std::string::npos)
      << odd.error_message();
  *request.mutable_linux() = Pinned(4).linux().resources();
  EXPECT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(full.container), "2-3,8-9");
}

TEST_F(DaemonOwnCpus, AreThoseThatASchedulerHasDecided) {
  Start(StaticConfig(kAllChoosing));
  EXPECT_EQ(Place(PodOfStatus("decided", R"({"cpuset":"5,12"})"), 2), "5,12");
  EXPECT_EQ(
      Place(PodOfStatus("node", R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"2"}}]})"),
            2),
      "8-9");
  const std::string taken = RefusalOf(PodOfStatus("late", R"({"cpuset":"12-13"})"), 2);
  EXPECT_NE(taken.find("PodPolicyError: the scheduler decided cpuset 12-13 of annotation "
                       "scheduling.koordinator.sh/resource-status, and CPUs 12 are not free: pods "
                       "with them are decided. What would help: "),
            std::string::npos)
      << taken;
}

TEST_F(DaemonOwnCpus, OfAPodOfThePodsApiAreThoseThatASchedulerHasDecided) {
  Start(StaticConfig(kAllChoosing));
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "100Mi"}};
  (*api)->SetPod(MakePod("p", {App("app", two), App("side", two)}));
  const v1::PodSandboxConfig pod = PodOfStatus("p", R"({"cpuset":"4-5,8-9"})");
  const std::string sandbox = Run(pod);
  CpuSet all;
  for (const std::string name : {"app", "side"}) {
    v1::ContainerConfig config = Pinned(2);
    config.mutable_metadata()->set_name(name);
    const auto created = Create(sandbox, pod, config);
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    const CpuSet cpus = *CpuSet::Parse(CpusOf(created.response.container_id()));
    EXPECT_EQ(cpus.Count(), 2);
    all |= cpus;
  }
  EXPECT_EQ(all.ToString(), "4-5,8-9");
  (*api)->SetPod(MakePod("q", {App("app", two), App("side", two)}));
  const std::string small = RefusalOf(PodOfStatus("q", R"({"cpuset":"12-13"})"), 2);
  EXPECT_NE(small.find("the pod requests 4 exclusive CPUs, not 2"), std::string::npos) << small;
}

TEST_F(DaemonOwnCpus, AreIgnoredByDefaultAndExplainSaysSo) {
  Start(StaticConfig(""));
  v1::PodSandboxConfig pod = PodOfSpec("p", kFullSpec);
  (*pod.mutable_annotations())[std::string(kResourceStatusAnnotation)] = "nonsense";
  EXPECT_EQ(Place(pod, 3), "1-3");
  const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain("", 1);
  ASSERT_TRUE(explained.ok() && explained->decisions_size() == 1);
  EXPECT_EQ(explained->decisions(0).asked(),
            "app: 3 exclusive CPUs; requiredCPUBindPolicy FullPCPUs of annotation "
            "scheduling.koordinator.sh/resource-spec is ignored: podPolicies does not have "
            "cpuBindPolicy; annotation scheduling.koordinator.sh/resource-status is ignored: "
            "podPolicies does not have resourceStatus");
}

}  // namespace
}  // namespace alignd::daemon
