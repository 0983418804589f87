// Pods that ask for a topology policy by annotation: on a node with 13 CPUs for pods on NUMA node 0
// and 14 on NUMA node 1.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "alignd/pod/pod_policies.h"
#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/process.h"
#include "edge/status_conditions.h"
#include "reload_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr char kSingle[] = R"({"numaTopologyPolicy":"SingleNUMANode"})";
constexpr char kChoosing[] = "podPolicies: [numaTopologyPolicy]\n";

v1::PodSandboxConfig PodAsking(const std::string& uid, const std::string& spec = kSingle) {
  v1::PodSandboxConfig pod = PodConfig(uid);
  (*pod.mutable_annotations())[std::string(kNumaTopologyAnnotation)] = spec;
  return pod;
}

constexpr char kChoosingInTeam[] =
    "namespacePolicies: [{namespaces: [team-a], podPolicies: [numaTopologyPolicy]}]\n";

v1::PodSandboxConfig InTeam(v1::PodSandboxConfig pod) {
  pod.mutable_metadata()->set_namespace_("team-a");
  return pod;
}

class DaemonPodPolicies : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.pod_policies = flag_;
    return options;
  }

  grpc::Status CreateOne(const v1::PodSandboxConfig& pod, int cpus) const {
    return Create(Run(pod), pod, Pinned(cpus)).status;
  }

  grpc::Status Resize(const Running& running, int cpus) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(running.container);
    *request.mutable_linux() = Pinned(cpus).linux().resources();
    return Update(request);
  }

  control::v1::PodDecision LastDecision() const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain("", 1);
    if (!explained.ok() || explained->decisions_size() != 1) {
      ADD_FAILURE() << "no decision";
      return {};
    }
    return explained->decisions(0);
  }

  std::optional<std::set<PodPolicy>> flag_;
};

TEST_F(DaemonPodPolicies, AreIgnoredByDefaultAndExplainSaysSo) {
  Start(StaticConfig(""));
  for (const std::string spec : {kSingle, "nonsense"}) {
    const v1::PodSandboxConfig pod = PodAsking("wide", spec);
    const Running wide = RunOne(pod, Pinned(20));
    EXPECT_EQ(CpusOf(wide.container), "1-6,14-27");
    EXPECT_EQ(LastDecision().asked(),
              "app: 20 exclusive CPUs; annotation scheduling.koordinator.sh/numa-topology-spec is "
              "ignored: podPolicies does not have numaTopologyPolicy");
    ASSERT_TRUE(RemoveSandbox(wide.sandbox).ok());
  }
}

TEST_F(DaemonPodPolicies, ApplyOnANodeWithoutAPolicy) {
  Start(StaticConfig(kChoosing));
  const grpc::Status refused = CreateOne(PodAsking("wide"), 20);
  EXPECT_NE(refused.error_message().find("TopologyAffinityError"), std::string::npos)
      << refused.error_message();
  EXPECT_EQ(LastDecision().reason(), "TopologyAffinityError");
  RunOne(PodConfig("first"), Pinned(2));  // leaves 11 CPUs of NUMA node 0
  const Running aligned = RunOne(PodAsking("aligned"), Pinned(12));
  EXPECT_EQ(CpusOf(aligned.container), "14-25");
  const control::v1::PodDecision decision = LastDecision();
  EXPECT_EQ(decision.asked(),
            "app: 12 exclusive CPUs; numaTopologyPolicy SingleNUMANode of annotation "
            "scheduling.koordinator.sh/numa-topology-spec");
  ASSERT_EQ(decision.containers_size(), 1);
  EXPECT_TRUE(decision.containers(0).merged().preferred());
  // A pod without the annotation has the node's policy, which is none.
  const Running plain = RunOne(PodConfig("plain"), Pinned(12));
  EXPECT_EQ(CpusOf(plain.container), "3-12,26-27");
}

TEST_F(DaemonPodPolicies, DependOnTheNamespaceAlsoAfterARestart) {
  Start(StaticConfig(kChoosingInTeam));
  EXPECT_FALSE(CreateOne(InTeam(PodAsking("wide")), 20).ok());
  const Running plain = RunOne(PodAsking("plain"), Pinned(20));
  EXPECT_EQ(CpusOf(plain.container), "1-6,14-27");
  ASSERT_TRUE(RemoveSandbox(plain.sandbox).ok());
  const Running single = RunOne(InTeam(PodAsking("single")), Pinned(2));
  StopDaemon();
  StartDaemon(StaticConfig(kChoosingInTeam));
  const grpc::Status refused = Resize(single, 20);  // its NUMA node has 13
  EXPECT_NE(refused.error_message().find("single-numa-node does not allow"), std::string::npos)
      << refused.error_message();
}

TEST_F(DaemonPodPolicies, MayNotDifferFromThoseOfTheNode) {
  Start(StaticConfig(std::string(kChoosing) + "topologyManagerPolicy: restricted\n"));
  const grpc::Status refused = CreateOne(PodAsking("p"), 2);
  EXPECT_NE(refused.error_message().find(
                "PodPolicyError: the pod asks for numaTopologyPolicy SingleNUMANode of annotation "
                "scheduling.koordinator.sh/numa-topology-spec, and this node decides with "
                "topologyManagerPolicy restricted. What would help: "),
            std::string::npos)
      << refused.error_message();
  EXPECT_TRUE(CreateOne(PodAsking("same", R"({"numaTopologyPolicy":"Restricted"})"), 2).ok());
  EXPECT_TRUE(CreateOne(PodAsking("none", "{}"), 2).ok());
}

TEST_F(DaemonPodPolicies, AFaultyAnnotationIsRefusedWithTheAllowedValues) {
  Start(StaticConfig(kChoosing));
  for (const auto& [spec, fault] : std::map<std::string, std::string>{
           {R"({"numaTopologyPolicy":"single"})",
            R"(numaTopologyPolicy: "single" is not "BestEffort", "Restricted", "SingleNUMANode" )"
            R"(or "")"},
           {R"({"policy":"Restricted"})", "policy: is not known; known are numaTopologyPolicy"},
           {"SingleNUMANode", ""}}) {
    const grpc::Status refused = CreateOne(PodAsking("p", spec), 2);
    EXPECT_FALSE(refused.ok());
    EXPECT_NE(
        refused.error_message().find(
            "PodPolicyError: annotation scheduling.koordinator.sh/numa-topology-spec: " + fault),
        std::string::npos)
        << refused.error_message();
  }
}

TEST_F(DaemonPodPolicies, TheFlagOverridesTheConfiguration) {
  flag_.emplace();
  Start(StaticConfig(std::string(kChoosing) + kChoosingInTeam));
  EXPECT_TRUE(CreateOne(PodAsking("wide"), 20).ok());
  EXPECT_TRUE(CreateOne(InTeam(PodAsking("other-wide", "nonsense")), 1).ok());
  StopDaemon();
  flag_->insert(PodPolicy::kNumaTopologyPolicy);
  StartDaemon(StaticConfig(""));
  EXPECT_FALSE(CreateOne(PodAsking("other", "nonsense"), 1).ok());
}

TEST_F(DaemonPodPolicies, HoldForPodsOfThePodsApi) {
  Start(StaticConfig(kChoosing));
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const std::map<std::string, std::string> twenty = {{"cpu", "20"}, {"memory", "100Mi"}};
  (*api)->SetPod(MakePod("wide", {App("app", twenty)}));
  EXPECT_FALSE(CreateOne(PodAsking("wide"), 20).ok());
  EXPECT_EQ(LastDecision().source(), "kubelet's Pods API");
  EXPECT_EQ(LastDecision().reason(), "TopologyAffinityError");
}

// The state files do not have the policy. The sandbox of the pod has it.
TEST_F(DaemonPodPolicies, AResizeKeepsTheAlignmentAlsoAfterARestart) {
  Start(StaticConfig(kChoosing));
  const v1::PodSandboxConfig pod = PodAsking("aligned");
  const Running aligned = RunOne(pod, Pinned(12));
  ASSERT_EQ(CpusOf(aligned.container), "1-12");
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      StopDaemon();
      StartDaemon(StaticConfig(kChoosing));
    }
    const grpc::Status refused = Resize(aligned, 16);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(refused.error_message().find("single-numa-node does not allow"), std::string::npos)
        << refused.error_message();
    EXPECT_EQ(CpusOf(aligned.container), "1-12");
  }
  EXPECT_TRUE(Resize(aligned, 13).ok());
  EXPECT_EQ(CpusOf(aligned.container), "1-13");
}

// A pod that runs across NUMA nodes is not touched when the operator lets pods choose, nor if its
// container is created again.
TEST_F(DaemonPodPolicies, ARestartChangesNothingOfARunningPod) {
  Start(StaticConfig(""));
  const v1::PodSandboxConfig pod = PodAsking("wide");
  const Running wide = RunOne(pod, Pinned(20));
  const std::string cpus = CpusOf(wide.container);
  const std::string state = State();
  StopDaemon();
  StartDaemon(StaticConfig(kChoosing));
  v1::ContainerConfig next = Pinned(20);
  next.mutable_metadata()->set_attempt(1);
  const auto again = Create(wide.sandbox, pod, next);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(CpusOf(again.response.container_id()), cpus);
  EXPECT_EQ(CpusOf(wide.container), cpus);
  EXPECT_EQ(State(), state);
  // Nor is it held to a policy under which it was not admitted.
  EXPECT_TRUE(Resize(wide, 21).ok());
}

// There is nothing to decide for it.
TEST_F(DaemonPodPolicies, APodOfTheSharedPoolIsAdmittedWhateverItsAnnotationSays) {
  Start(StaticConfig(std::string(kChoosing) + "topologyManagerPolicy: restricted\n"));
  for (const std::string spec : {kSingle, "nonsense"}) {
    const v1::PodSandboxConfig pod = PodAsking("shared", spec);
    EXPECT_TRUE(Create(Run(pod), pod, Shared()).status.ok()) << spec;
  }
}

// Annotations of cri-resource-manager and nri-plugins change nothing, and are named.
TEST_F(DaemonPodPolicies, AnnotationsThatAreNotSupportedAreNamedUntilTheLastPodHasGone) {
  Start(StaticConfig(""));
  std::vector<Running> running;
  for (const std::string uid : {"a", "b"}) {
    v1::PodSandboxConfig pod = PodConfig(uid);
    (*pod.mutable_annotations())["require-isolated-cpus.resource-policy.nri.io/pod"] = "true";
    (*pod.mutable_annotations())["memory-type.resource-policy.nri.io/container.app"] = "hbm";
    running.push_back(RunOne(pod, Pinned(2)));
    EXPECT_EQ(LastDecision().asked(),
              "app: 2 exclusive CPUs; annotations memory-type.resource-policy.nri.io, "
              "require-isolated-cpus.resource-policy.nri.io are not supported");
  }
  const auto named = [this] {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                 reconcile::ConditionType::kUnsupportedAnnotation);
  };
  const auto names = [&](const std::string& pod) {
    const auto found = named();
    return found.size() == 1 &&
           found[0].message().ends_with("memory-type.resource-policy.nri.io (pod " + pod +
                                        "), require-isolated-cpus.resource-policy.nri.io (pod " +
                                        pod + ")");
  };
  EXPECT_TRUE(testing::WaitUntil([&] { return names("default/pod-a"); }));
  ASSERT_TRUE(RemoveSandbox(running[0].sandbox).ok());
  EXPECT_TRUE(testing::WaitUntil([&] { return names("default/pod-b"); }));
  ASSERT_TRUE(RemoveSandbox(running[1].sandbox).ok());
  EXPECT_TRUE(testing::WaitUntil([&] { return named().empty(); }));
}

// Of the annotation that a scheduler writes, only a part is not supported.
TEST_F(DaemonPodPolicies, APartOfAnAnnotationThatIsNotSupportedIsNamed) {
  Start(StaticConfig(""));
  v1::PodSandboxConfig pod = PodConfig("a");
  (*pod.mutable_annotations())["scheduling.koordinator.sh/resource-status"] =
      R"({"cpuSharedPools":[{"socket":0,"node":0,"cpuset":"0-3"}]})";
  RunOne(pod, Shared());
  EXPECT_TRUE(testing::WaitUntil([this] {
    const auto found = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                             reconcile::ConditionType::kUnsupportedAnnotation);
    return found.size() == 1 &&
           found[0].message().find("scheduling.koordinator.sh/resource-status (cpuSharedPools)") !=
               std::string::npos;
  }));
}

// Which CPUs are isolated is a part of the machine: after a restart, too.
TEST_F(DaemonPodPolicies, AContainerGetsIsolatedCpusIfItAsks) {
  std::string node = BlogNode();
  node.insert(node.size() - 1, R"(,"isolated":"20-22")");
  tree_.Write({"node.json", node});
  Start(StaticConfig("podPolicies: [prefer-isolated-cpus]\n"));
  const auto asking = [](const std::string& uid) {
    v1::PodSandboxConfig pod = PodConfig(uid);
    (*pod.mutable_annotations())["prefer-isolated-cpus.resource-policy.nri.io"] = "true";
    return pod;
  };
  const Running first = RunOne(asking("a"), Pinned(2));
  EXPECT_EQ(CpusOf(first.container), "20-21");
  EXPECT_EQ(LastDecision().asked(),
            "app: 2 exclusive CPUs; annotation prefer-isolated-cpus: isolated CPUs, if they are "
            "enough, for app");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("b"), Pinned(2)).container), "14-15");
  StopDaemon();
  StartDaemon(StaticConfig("podPolicies: [prefer-isolated-cpus]\n"));
  EXPECT_EQ(CpusOf(first.container), "20-21");
  EXPECT_EQ(CpusOf(RunOne(asking("c"), Pinned(2)).container), "16-17") << "one is left";
  EXPECT_EQ(CpusOf(RunOne(asking("d"), Pinned(1)).container), "22");
}

// Shared CPUs in place of exclusive ones: the number of CPUs then changes without alignd.
TEST_F(DaemonPodPolicies, AContainerThatPrefersSharedCpusStaysInTheSharedPool) {
  Start(StaticConfig("podPolicies: [prefer-shared-cpus, qosClass]\n"));
  v1::PodSandboxConfig pod = PodConfig("shared");
  (*pod.mutable_annotations())["prefer-shared-cpus.resource-policy.nri.io/container.app"] = "true";
  const Running shared = RunOne(pod, Pinned(2));
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  v1::PodSandboxConfig labelled = PodConfig("labelled");
  (*labelled.mutable_labels())["koordinator.sh/qosClass"] = "LS";
  EXPECT_EQ(CpusOf(RunOne(labelled, Pinned(2)).container), "0-27");
  (*labelled.mutable_labels())["koordinator.sh/qosClass"] = "LSR";
  labelled.mutable_metadata()->set_uid("exclusive");
  EXPECT_EQ(CpusOf(RunOne(labelled, Pinned(2)).container), "1-2");
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      StopDaemon();
      StartDaemon(StaticConfig("podPolicies: [prefer-shared-cpus]\n"));
    }
    const grpc::Status resized = Resize(shared, is_restarted ? 4 : 3);
    EXPECT_TRUE(resized.ok()) << resized.error_message();
    EXPECT_EQ(CpusOf(shared.container), "0,3-27");
  }
}

// A label for exclusive CPUs is no wish: without them, the pod does not run. Also if there is
// nothing else to decide.
TEST_F(DaemonPodPolicies, APodThatMustHaveExclusiveCpusIsRefusedWithoutThem) {
  Start(StaticConfig("podPolicies: [qosClass]\n"));
  const auto labelled = [](v1::PodSandboxConfig pod) {
    (*pod.mutable_labels())["koordinator.sh/qosClass"] = "LSR";
    return pod;
  };
  const auto refusal_of = [this](const v1::PodSandboxConfig& pod, const v1::ContainerConfig& app) {
    return Create(Run(pod), pod, app).status.error_message();
  };
  const v1::ContainerConfig half = podsource::Kubelet(500, 500, 100 * podsource::kMi, "app");
  EXPECT_NE(refusal_of(labelled(PodConfig("half")), half)
                .find("PodPolicyError: the pod asks for exclusive CPUs by label "
                      "koordinator.sh/qosClass LSR, and these of its containers get none: app"),
            std::string::npos);
  EXPECT_NE(refusal_of(labelled(BurstablePod("burstable")), Shared()).find("PodPolicyError"),
            std::string::npos);
  EXPECT_EQ(refusal_of(PodConfig("plain"), half), "");
  const Running whole = RunOne(labelled(PodConfig("whole")), Pinned(2));
  EXPECT_EQ(CpusOf(whole.container), "1-2");
  // Nor does a resize leave it without.
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(whole.container);
  *request.mutable_linux() = half.linux().resources();
  const grpc::Status resized = Update(request);
  EXPECT_NE(
      resized.error_message().find("label koordinator.sh/qosClass LSR asks for exclusive ones"),
      std::string::npos)
      << resized.error_message();
  EXPECT_EQ(CpusOf(whole.container), "1-2");
}

// The list of the namespace decides.
TEST_F(DaemonPodPolicies, PrefersSharedCpusOnlyWhereItsNamespaceAllowsIt) {
  Start(
      StaticConfig("namespacePolicies: [{namespaces: [team-a], podPolicies: "
                   "[prefer-shared-cpus]}]\n"));
  v1::PodSandboxConfig pod = PodConfig("p");
  (*pod.mutable_annotations())["prefer-shared-cpus.resource-policy.nri.io"] = "true";
  EXPECT_EQ(CpusOf(RunOne(pod, Pinned(2)).container), "1-2");
  pod.mutable_metadata()->set_uid("q");
  EXPECT_EQ(CpusOf(RunOne(InTeam(pod), Pinned(2)).container), "0,3-27");
  (*pod.mutable_annotations())["prefer-shared-cpus.resource-policy.nri.io"] = "maybe";
  pod.mutable_metadata()->set_uid("r");
  EXPECT_TRUE(CreateOne(pod, 2).ok());
}

constexpr char kDefaultsInTeam[] =
    "namespacePolicies:\n"
    "- namespaces: [team-a]\n"
    "  podPolicies: [prefer-shared-cpus]\n"
    "  defaults: {numaTopologyPolicy: SingleNUMANode}\n"
    "- namespaces: [batch]\n"
    "  podPolicies: []\n"
    "  defaults: {prefer-shared-cpus: true}\n"
    "- namespaces: [db]\n"
    "  podPolicies: []\n"
    "  defaults: {shared-cpus: single-numa-node}\n";

v1::PodSandboxConfig InNamespace(const std::string& name, v1::PodSandboxConfig pod) {
  pod.mutable_metadata()->set_namespace_(name);
  return pod;
}

TEST_F(DaemonPodPolicies, OfTheNamespaceNeedNoAnnotation) {
  Start(StaticConfig(kDefaultsInTeam));
  const grpc::Status refused = CreateOne(InTeam(PodConfig("wide")), 20);
  EXPECT_NE(refused.error_message().find("its policy is that of its namespace: numaTopologyPolicy "
                                         "SingleNUMANode of the defaults of namespace team-a"),
            std::string::npos)
      << refused.error_message();
  const Running single = RunOne(InTeam(PodConfig("single")), Pinned(3));
  EXPECT_EQ(LastDecision().asked(),
            "app: 3 exclusive CPUs; numaTopologyPolicy SingleNUMANode of the defaults of namespace "
            "team-a");
  EXPECT_EQ(CpusOf(single.container), "1-3");
  EXPECT_EQ(CpusOf(RunOne(InNamespace("batch", PodConfig("batch")), Pinned(2)).container),
            "0,4-27");
  const Running shared = RunOne(InNamespace("db", BurstablePod("db")), Shared());
  EXPECT_EQ(CpusOf(shared.container), "14-27");
  const Running plain = RunOne(PodConfig("plain"), Pinned(20));
  EXPECT_EQ(CpusOf(plain.container), "4-23");
  ASSERT_TRUE(RemoveSandbox(plain.sandbox).ok());
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      StopDaemon();
      StartDaemon(StaticConfig(kDefaultsInTeam));
    }
    const grpc::Status resized = Resize(single, 20);  // its NUMA node has 13
    EXPECT_NE(resized.error_message().find("single-numa-node does not allow"), std::string::npos)
        << resized.error_message();
    EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "14-27"; }))
        << CpusOf(shared.container);
  }
}

// What pods may choose is off, and their defaults are not.
TEST_F(DaemonPodPolicies, OfTheNamespaceStayWhereNoPodsMayChoose) {
  flag_.emplace();
  Start(StaticConfig(kDefaultsInTeam));
  EXPECT_FALSE(CreateOne(InTeam(PodConfig("wide")), 20).ok());
  v1::PodSandboxConfig pod = InTeam(PodConfig("p"));
  (*pod.mutable_annotations())["prefer-shared-cpus.resource-policy.nri.io"] = "true";
  EXPECT_EQ(CpusOf(RunOne(pod, Pinned(2)).container), "1-2");
}

// A container of `kubectl debug` is no part of what its pod was admitted with.
TEST_F(DaemonPodPolicies, OfTheNamespaceAreNotForEphemeralContainers) {
  Start(StaticConfig(
      "namespacePolicies: [{namespaces: [db], podPolicies: [], defaults: {shared-cpus: "
      "single-numa-node}}]\n"));
  const v1::PodSandboxConfig pod = InNamespace("db", PodConfig("p"));
  const Running pinned = RunOne(pod, Pinned(2));
  const auto debugger = Create(pinned.sandbox, pod, podsource::Kubelet(0, 0, 0, "debugger"));
  ASSERT_TRUE(debugger.status.ok()) << debugger.status.error_message();
  EXPECT_EQ(CpusOf(debugger.response.container_id()), "0,3-27");
}

class DaemonMovedPodPolicies : public DaemonReload {
 protected:
  // Where the pod `p` would go if CPU 1 became reserved.
  std::string PlaceOfP() const {
    const auto planned = Control().PlanChange(ReservingCpu1());
    if (!planned.ok()) return planned.error().Text();
    for (const auto& container : planned->containers()) {
      if (container.pod_uid() == "p") return container.fate() + " " + container.cpus_after();
    }
    return "";
  }
  static control::v1::ChangeRequest ReservingCpu1() {
    control::v1::ChangeRequest request;
    request.set_config(ConfigWith("0-1", kChoosing));
    request.set_may_move(true);
    return request;
  }
};

// At the start after the kill, the container has the CPUs of before and of after: on both NUMA
// nodes.
TEST_F(DaemonMovedPodPolicies, AreKnownAgainWhenAContainerHasMovedBack) {
  tree_.Write({"config.yaml", ConfigWith("0", kChoosing)});
  StartProcess();
  const Running pod = RunOne(PodAsking("p"), Pinned(3));
  RunOne(PodConfig("other"), Pinned(10));  // the rest of NUMA node 0
  ASSERT_EQ(CpusOf(pod.container), "1-3");
  ASSERT_EQ(PlaceOfP(), "moves 14-16");
  runtime_->SetDelay("UpdateContainerResources", kPatience, pod.container);
  const auto change = Control().ApplyChange(ReservingCpu1());
  ASSERT_TRUE(change.ok()) << change.error().Text();
  ASSERT_TRUE(Control().GetChange(change->change()).ok());  // begins it
  ASSERT_TRUE(Eventually([&] { return State().find("1-3,14-16") != std::string::npos; }));
  alignd_->Kill(SIGKILL);
  runtime_->SetDelay("UpdateContainerResources", milliseconds(0));
  runtime_->EndDelays();
  StartProcess();
  ASSERT_TRUE(Eventually([&] { return PlaceOfP() == "moves 14-16"; }))
      << PlaceOfP() << alignd_->Log();
  EXPECT_EQ(CpusOf(pod.container), "1-3");
}

}  // namespace
}  // namespace alignd::daemon
