// Manifests: which pods they state, and what the API server refuses.
#include "alignd/placement/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace alignd::placement {
namespace {

// A Pod whose container has these `resources`, with more fields of the spec.
std::string PodText(const std::string& resources, const std::string& more_spec = "") {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{)" + more_spec +
         R"("containers":[{"name":"app","image":"i","resources":)" + resources + "}]}}";
}

std::string ControllerText(const std::string& version, const std::string& kind,
                           const std::string& spec) {
  return R"({"apiVersion":")" + version + R"(","kind":")" + kind +
         R"(","metadata":{"name":"web","namespace":"shop"},"spec":{)" + spec + "}}";
}

const char kTemplate[] =
    R"("template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"2"}}}]}})";

Manifests ManifestsOf(const std::vector<std::string>& texts) {
  Manifests manifests;
  for (const std::string& text : texts) {
    const Result<Done> read = ReadManifest(text, "f.yaml", manifests);
    EXPECT_TRUE(read.ok()) << read.error().Text() << "\n" << text;
  }
  return manifests;
}

std::vector<PlannedPod> PodsOf(const std::vector<std::string>& texts,
                               std::optional<int64_t> replicas = std::nullopt) {
  Result<std::vector<PlannedPod>> pods = ExpandPods(ManifestsOf(texts), replicas);
  EXPECT_TRUE(pods.ok()) << pods.error().Text();
  return pods.ok() ? *std::move(pods) : std::vector<PlannedPod>{};
}

std::vector<std::string> FaultsOf(const std::string& text) {
  const std::vector<PlannedPod> pods = PodsOf({text});
  EXPECT_EQ(pods.size(), 1U);
  return pods.empty() ? std::vector<std::string>{} : pods.front().faults;
}

std::string ReadErrorOf(const std::string& text) {
  Manifests manifests;
  const Result<Done> read = ReadManifest(text, "f.yaml", manifests);
  return read.ok() ? "" : read.error().Text();
}

std::vector<std::string> NamesOfPods(const std::vector<PlannedPod>& pods) {
  std::vector<std::string> names;
  for (const PlannedPod& pod : pods) names.push_back(pod.pod.name_space + "/" + pod.pod.name);
  return names;
}

using Texts = std::vector<std::string>;
const std::string kLimits = "spec.containers[0].resources.limits";
const std::string kRequests = "spec.containers[0].resources.requests";

TEST(Manifest, ReadsAPod) {
  const std::vector<PlannedPod> pods =
      PodsOf({PodText(R"({"limits":{"cpu":"2","memory":"1Gi"}})",
                      R"("runtimeClassName":"kata","overhead":{"cpu":"250m"},)")});
  ASSERT_EQ(pods.size(), 1U);
  const PlannedPod& planned = pods.front();
  EXPECT_EQ(planned.faults, Texts{});
  EXPECT_EQ(planned.undecided, Texts{});
  EXPECT_EQ(planned.pod.name, "p");
  EXPECT_EQ(planned.pod.name_space, "default");
  EXPECT_EQ(planned.pod.uid, "default/p");
  EXPECT_EQ(QosOf(planned.pod), QosClass::kGuaranteed);
  EXPECT_EQ(planned.overhead.at("cpu").ToString(), "250m");
}

TEST(Manifest, RefusesRequestsAboveLimits) {
  EXPECT_EQ(FaultsOf(PodText(R"({"requests":{"cpu":"4"},"limits":{"cpu":"2"}})")),
            Texts{kRequests +
                  "[cpu]: Invalid value: \"4\": must be less than or equal to cpu limit of 2"});
}

TEST(Manifest, RefusesPartsOfExtendedResources) {
  for (const char* amount : {"0.5", "500m", "1500m", "1.000001"}) {
    const std::vector<std::string> faults =
        FaultsOf(PodText(std::string(R"({"limits":{"nvidia.com/gpu":")") + amount + "\"}}"));
    ASSERT_EQ(faults.size(), 1U) << amount;
    EXPECT_TRUE(faults[0].ends_with("must be an integer")) << faults[0];
  }
  EXPECT_EQ(FaultsOf(PodText(R"({"limits":{"nvidia.com/gpu":"1000m"}})")), Texts{});
}

TEST(Manifest, RequiresEqualRequestAndLimitOfExtendedResources) {
  EXPECT_EQ(
      FaultsOf(PodText(R"({"requests":{"a.com/x":"1"},"limits":{"a.com/x":"2"}})")),
      Texts{kRequests + "[a.com/x]: Invalid value: \"1\": must be equal to a.com/x limit of 2"});
  EXPECT_EQ(FaultsOf(PodText(R"({"requests":{"a.com/x":"1"}})")),
            Texts{kLimits +
                  "[a.com/x]: Required value: Limit must be set for non overcommitable resources"});
}

TEST(Manifest, NamesTheNearestFieldOfAnUnknownOne) {
  const std::string pod =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":)"
      R"([{"name":"app","resource":{"limits":{"cpu":"2"}}}]}})";
  EXPECT_EQ(FaultsOf(pod),
            Texts{"spec.containers[0].resource: unknown field; did you mean \"resources\"?"});
  EXPECT_EQ(FaultsOf(PodText(R"({"limit":{"cpu":"2"}})")),
            Texts{"spec.containers[0].resources.limit: unknown field; did you mean \"limits\"?"});
  EXPECT_EQ(FaultsOf(PodText("{}", R"("initContainer":[],)")),
            Texts{"spec.initContainer: unknown field; did you mean \"initContainers\"?"});
  EXPECT_EQ(FaultsOf(PodText("{}", R"("zzzzzzzz":1,)")), Texts{"spec.zzzzzzzz: unknown field"});
}

TEST(Manifest, RefusesWrongNamesOfResources) {
  for (const char* name : {"gpu", "cpus", "storage", "pods", "a_b.com/x", "requests.a.com/x",
                           "a.com/", "hugepages-", "hugepages-zwei"}) {
    const std::string limits = std::string(R"({"limits":{"cpu":"1",")") + name + R"(":"1"}})";
    EXPECT_FALSE(FaultsOf(PodText(limits)).empty()) << name;
  }
  for (const char* name : {"ephemeral-storage", "a.com/x", "A.com"}) {
    const bool is_fine = std::string(name) != "A.com";
    EXPECT_EQ(FaultsOf(PodText(std::string(R"({"limits":{")") + name + R"(":"1"}})")).empty(),
              is_fine)
        << name;
  }
}

TEST(Manifest, RefusesAmountsThatAreNone) {
  for (const char* amount : {R"("two")", R"("-1")", R"("1x")", "{}", "true"}) {
    EXPECT_EQ(FaultsOf(PodText(std::string(R"({"limits":{"cpu":)") + amount + "}}")).size(), 1U)
        << amount;
  }
}

TEST(Manifest, ChecksHugePages) {
  EXPECT_EQ(FaultsOf(PodText(R"({"limits":{"hugepages-2Mi":"4Mi"}})")),
            Texts{"spec.containers[0].resources: Forbidden: HugePages require cpu or memory"});
  EXPECT_EQ(
      FaultsOf(PodText(R"({"limits":{"hugepages-2Mi":"3Mi","cpu":"1"}})")),
      Texts{kLimits + "[hugepages-2Mi]: Invalid value: \"3Mi\": is not positive integer multiple "
                      "of 2Mi"});
  EXPECT_EQ(FaultsOf(PodText(R"({"limits":{"hugepages-2Mi":"4Mi","cpu":"1"}})")), Texts{});
}

TEST(Manifest, ChecksNames) {
  const auto named = [](const std::string& metadata, const std::string& containers) {
    return FaultsOf(R"({"apiVersion":"v1","kind":"Pod","metadata":{)" + metadata +
                    R"(},"spec":{"containers":[)" + containers + "]}}")
        .size();
  };
  EXPECT_EQ(named(R"("name":"a.b")", R"({"name":"c"})"), 0U);
  EXPECT_EQ(named(R"("name":"A")", R"({"name":"c"})"), 1U);
  EXPECT_EQ(named(R"("name":"a-")", R"({"name":"c"})"), 1U);
  EXPECT_EQ(named(R"("name":"a","namespace":"x.y")", R"({"name":"c"})"), 1U);
  EXPECT_EQ(named("", R"({"name":"c"})"), 1U);
  EXPECT_EQ(named(R"("name":"a")", R"({"name":"c.d"})"), 1U);
  EXPECT_EQ(named(R"("name":"a")", R"({"name":"c"},{"name":"c"})"), 1U);
  EXPECT_EQ(named(R"("name":"a")", R"({"image":"c"})"), 1U);
  EXPECT_EQ(named(R"("name":"a")", ""), 1U);
  EXPECT_EQ(named(R"("name":"a","generateName":"B")", R"({"name":"c"})"), 1U);
}

TEST(Manifest, RefusesAnUnknownRestartPolicyOfAContainer) {
  EXPECT_EQ(FaultsOf(PodText("{}", R"("initContainers":[{"name":"i","restartPolicy":"always"}],)")),
            Texts{"spec.initContainers[0].restartPolicy: Unsupported value: \"always\": supported "
                  "values: \"Always\", \"Never\", \"OnFailure\""});
}

// A newer API server has accepted it.
TEST(Manifest, AcceptsWhatThePodsOfTheApiServerHaveAsRestartPolicy) {
  const std::string spec = R"("spec":{"containers":[{"name":"app","restartPolicy":"Sometimes"}]})";
  const std::string head = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p")";
  EXPECT_EQ(FaultsOf(head + "}," + spec + "}").size(), 1U);
  EXPECT_EQ(FaultsOf(head + R"(,"uid":"u"},"status":{"phase":"Running"},)" + spec + "}"), Texts{});
}

TEST(Manifest, ChecksPodLevelResources) {
  const std::string pod = PodText(R"({"requests":{"cpu":"3"},"limits":{"cpu":"6"}})",
                                  R"("resources":{"requests":{"cpu":"2"},"limits":{"cpu":"4"}},)");
  EXPECT_EQ(FaultsOf(pod),
            (Texts{"spec.resources.requests[cpu]: Invalid value: \"2\": must be greater than or "
                   "equal to aggregate container requests of 3",
                   "spec.resources.limits[cpu]: Invalid value: \"4\": must be greater than or "
                   "equal to the limit of container \"app\", 6"}));
  EXPECT_EQ(FaultsOf(PodText("{}", R"("resources":{"limits":{"a.com/x":"2"}},)")).size(), 2U);
}

TEST(Manifest, NeverIgnoresClaims) {
  const std::vector<PlannedPod> pods =
      PodsOf({PodText(R"({"claims":[{"name":"gpu"}]})",
                      R"("resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"one"}],)")});
  ASSERT_EQ(pods.at(0).undecided.size(), 1U);
  EXPECT_TRUE(pods[0].undecided[0].starts_with("spec.resourceClaims: gpu: "));
  EXPECT_EQ(FaultsOf(PodText(R"({"claims":[{"name":"gpu"}]})")),
            Texts{"spec.containers[0].resources.claims[0]: Not found: \"gpu\""});
}

TEST(Manifest, TakesTheOverheadOfTheRuntimeClass) {
  const std::string pod = PodText("{}", R"("runtimeClassName":"kata",)");
  const std::string kata =
      R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"kata"},)"
      R"("handler":"kata","overhead":{"podFixed":{"cpu":"500m"}}})";
  EXPECT_EQ(PodsOf({pod}).at(0).undecided,
            Texts{"spec.runtimeClassName: the overhead of RuntimeClass \"kata\" is not known; add "
                  "its manifest to the files"});
  const PlannedPod known = PodsOf({pod, kata}).at(0);
  EXPECT_EQ(known.undecided, Texts{});
  EXPECT_EQ(known.overhead.at("cpu").ToString(), "500m");
  const std::string other =
      PodText("{}", R"("runtimeClassName":"kata","overhead":{"cpu":"100m"},)");
  EXPECT_EQ(PodsOf({other, kata}).at(0).faults.size(), 1U);
}

// The API server ignores it in a pod that it does not have yet.
TEST(Manifest, AUidAloneMakesNoPodOfTheApiServer) {
  const std::string kata =
      R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"kata"},)"
      R"("handler":"kata","overhead":{"podFixed":{"cpu":"500m"}}})";
  std::string pod = PodText("{}", R"("runtimeClassName":"kata",)");
  const std::string named = R"("name":"p")";
  ASSERT_NE(pod.find(named), std::string::npos) << pod;
  pod.replace(pod.find(named), named.size(), named + R"(,"uid":"1")");
  EXPECT_EQ(PodsOf({pod, kata}).at(0).overhead.at("cpu").ToString(), "500m");
  pod.insert(pod.rfind('}'), R"(,"status":{"phase":"Pending"})");
  EXPECT_TRUE(PodsOf({pod, kata}).at(0).overhead.empty());
}

// Of a node that is not ready, each pod tolerates the effect NoExecute for a while; a scheduler is
// asked about no pod that is bound.
TEST(Manifest, AddsTolerations) {
  const auto has = [](const std::string& spec, const std::string& key, const std::string& effect) {
    const PlannedPod pod = PodsOf({PodText("{}", spec)}).at(0);
    return std::ranges::any_of(pod.tolerations, [&](const Toleration& one) {
      return one.key == key && one.op == "Exists" && one.effect == effect;
    });
  };
  EXPECT_TRUE(has("", "node.kubernetes.io/not-ready", "NoExecute"));
  EXPECT_TRUE(has("", "node.kubernetes.io/unreachable", "NoExecute"));
  EXPECT_FALSE(has("", "", "NoSchedule"));
  EXPECT_TRUE(has(R"("nodeName":"n",)", "", "NoSchedule"));
  const PlannedPod gated =
      PodsOf({PodText("{}", R"("nodeName":"n","schedulingGates":[{"name":"example.com/a"}],)")})
          .at(0);
  EXPECT_EQ(gated.faults, Texts{"spec.nodeName: Forbidden: cannot be set until all schedulingGates "
                                "have been cleared"});
}

TEST(Manifest, ReadsTheLabelOfTheOperatingSystem) {
  std::string pod = PodText("{}", "");
  EXPECT_EQ(PodsOf({pod}).at(0).os_label, std::nullopt);
  const std::string named = R"("name":"p")";
  pod.replace(pod.find(named), named.size(), named + R"(,"labels":{"kubernetes.io/os":"windows"})");
  EXPECT_EQ(PodsOf({pod}).at(0).os_label, "windows");
}

TEST(Manifest, NamesTheSchedulingOfTheRuntimeClass) {
  const auto not_considered = [](const std::string& more, const std::string& spec = {}) {
    return PodsOf({PodText("{}", R"("runtimeClassName":"kata",)" + spec),
                   R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","handler":"kata",)"
                   R"("metadata":{"name":"kata"})" +
                       more + "}"})
        .at(0)
        .not_considered;
  };
  EXPECT_EQ(not_considered(""), Texts{});
  EXPECT_EQ(not_considered(R"(,"scheduling":{"nodeSelector":{"kata":"yes"}})"),
            Texts{"RuntimeClass.scheduling"});
  EXPECT_EQ(not_considered(R"(,"scheduling":{"tolerations":[{"operator":"Exists"}]})",
                           R"("nodeName":"n",)"),
            (Texts{"spec.nodeName", "RuntimeClass.scheduling"}));
  EXPECT_EQ(PodsOf({PodText("{}", R"("runtimeClassName":"kata","overhead":{"cpu":"1"},)")})
                .at(0)
                .not_considered,
            Texts{"RuntimeClass.scheduling"});
}

// The kubelet refuses sysctls that its configuration does not allow.
TEST(Manifest, SysctlsAreNotConsidered) {
  EXPECT_EQ(PodsOf({PodText("{}", R"("securityContext":{"runAsUser":1},)")}).at(0).not_considered,
            Texts{});
  EXPECT_EQ(PodsOf({PodText("{}", R"("securityContext":{"sysctls":[{"name":"net.core.somaxconn",)"
                                  R"("value":"1"}]},)")})
                .at(0)
                .not_considered,
            Texts{"spec.securityContext.sysctls"});
}

TEST(Manifest, OnePodOfOneObject) {
  const Result<PlannedPod> pod = ReadOnePod(PodText(R"({"limits":{"cpu":"2"}})"), "f");
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_EQ(pod->pod.name_space + "/" + pod->pod.name, "default/p");
  const std::string deployment = ControllerText(
      "apps/v1", "Deployment",
      R"("replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":)"
      R"({"a":"b"}},"spec":{"runtimeClassName":"kata","containers":[{"name":"app","image":"i",)"
      R"("resources":{"limits":{"cpu":"2"}}}]}})");
  const Result<PlannedPod> replica = ReadOnePod(deployment, "f");
  ASSERT_TRUE(replica.ok()) << replica.error().Text();
  EXPECT_EQ(replica->pod.containers.at(0).resources.requests.at("cpu").ToString(), "2");
  EXPECT_EQ(replica->runtime_handler, "kata");
}

TEST(Manifest, OnePodThatCannotBeDecidedAboutIsAnError) {
  const auto error = [](const std::string& text) {
    const Result<PlannedPod> pod = ReadOnePod(text, "f");
    return pod.ok() ? "" : pod.error().message;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_PRED2(has, error("{"), "JSON");
  EXPECT_PRED2(has, error(PodText(R"({"limits":{"nvidia.com/gpu":"500m"}})")),
               "the API server refuses the pod: spec.containers[0].resources.limits");
  EXPECT_PRED2(has, error(PodText(R"({"requests":{"cpu":"2"},"limits":{"cpu":"1"}})")),
               "must be less than or equal to cpu limit");
  EXPECT_PRED2(has, error(PodText(R"({},"resourcez":{})")), "resourcez");
  EXPECT_PRED2(has, error(PodText("{}", R"("resourceClaims":[{"name":"c"}],)")),
               "undecided: spec.resourceClaims: c");
  EXPECT_PRED2(has, error(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}})"),
               "Service web has no pods");
  EXPECT_PRED2(has,
               error(R"({"apiVersion":"v1","kind":"List","items":[)" + PodText("{}") + "," +
                     ControllerText("apps/v1", "Deployment", kTemplate) + "]}"),
               "2 objects have pods");
}

// The API server resolves the RuntimeClass of pods, not of templates.
TEST(Manifest, LooksForTheRuntimeClassOfAControllerThatHasAUid) {
  std::string text = ControllerText(
      "apps/v1", "ReplicaSet",
      R"("template":{"spec":{"runtimeClassName":"kata","containers":[{"name":"c"}]}})");
  text.replace(text.find(R"("name":"web")"), 12, R"("name":"web","uid":"u-1")");
  EXPECT_EQ(PodsOf({text}).at(0).undecided.size(), 1U);
}

TEST(Manifest, RefusesOverheadWithoutARuntimeClass) {
  const std::string spec = R"("overhead":{"cpu":"250m"},)";
  EXPECT_EQ(PodsOf({PodText("{}", spec)}).at(0).faults,
            Texts{"spec.overhead: Pod Overhead set without corresponding RuntimeClass defined "
                  "Overhead"});
  // The API server has checked a pod that it has, also if the plan is for more pods of that kind.
  std::string known = PodText("{}", spec);
  known.replace(known.find(R"("name":"p")"), 10, R"("name":"p","uid":"u-1")");
  known.insert(known.rfind('}'), R"(,"status":{"phase":"Running"})");
  EXPECT_EQ(PodsOf({known}).at(0).faults, Texts{});
  EXPECT_EQ(PodsOf({known}, 2).at(1).faults, Texts{});
}

TEST(Manifest, TakesContainerPortsOfTheHostNetworkAsHostPorts) {
  const auto not_considered = [](const std::string& spec, const std::string& port) {
    return PodsOf({R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{)" + spec +
                   R"("containers":[{"name":"app","ports":[)" + port + "]}]}}"})
        .at(0)
        .not_considered;
  };
  const std::string port = R"({"containerPort":80})";
  EXPECT_EQ(not_considered("", port), Texts{});
  EXPECT_EQ(not_considered(R"("hostNetwork":false,)", port), Texts{});
  EXPECT_EQ(not_considered(R"("hostNetwork":true,)", ""), Texts{});
  EXPECT_EQ(not_considered(R"("hostNetwork":true,)", port), Texts{"spec.containers.hostPort"});
  EXPECT_EQ(not_considered("", R"({"containerPort":80,"hostPort":80})"),
            Texts{"spec.containers.hostPort"});
}

// A template of pods of a Job.
std::string OfJob(std::string text) {
  const std::string containers = R"("containers":)";
  return text.replace(text.find(containers), 0, R"("restartPolicy":"Never",)");
}

TEST(Manifest, ReadsControllers) {
  const std::string replicas = std::string(R"("replicas":2,)") + kTemplate;
  EXPECT_EQ(NamesOfPods(PodsOf({ControllerText("apps/v1", "StatefulSet", replicas)})),
            (Texts{"shop/web-0", "shop/web-1"}));
  for (const char* kind : {"Deployment", "ReplicaSet"}) {
    const std::vector<PlannedPod> pods = PodsOf({ControllerText("apps/v1", kind, replicas)});
    ASSERT_EQ(pods.size(), 2U) << kind;
    EXPECT_EQ(pods[0].owner, std::string(kind) + " shop/web");
    EXPECT_EQ(pods[0].pod.containers.at(0).resources.requests.at("cpu").ToString(), "2");
    EXPECT_TRUE(pods[0].pod.name.starts_with("web-"));
    EXPECT_NE(pods[0].pod.name, pods[1].pod.name);
  }
  EXPECT_EQ(PodsOf({ControllerText("apps/v1", "DaemonSet", kTemplate)}, 5).size(), 1U);
  const std::string job = R"("parallelism":3,"completions":2,)" + OfJob(kTemplate);
  EXPECT_EQ(PodsOf({ControllerText("batch/v1", "Job", job)}).size(), 2U);
  EXPECT_EQ(PodsOf({ControllerText("batch/v1", "CronJob",
                                   R"("schedule":"@daily","jobTemplate":{"spec":{)" + job + "}}")})
                .size(),
            2U);
}

TEST(Manifest, NamesFaultsInTemplates) {
  EXPECT_EQ(
      FaultsOf(ControllerText(
          "apps/v1", "Deployment",
          R"("replica":2,"template":{"spec":{"containers":[{"name":"app","resource":{}}]}})")),
      (Texts{"spec.replica: unknown field; did you mean \"replicas\"?",
             "spec.template.spec.containers[0].resource: unknown field; did you mean "
             "\"resources\"?"}));
  EXPECT_EQ(FaultsOf(ControllerText("batch/v1", "CronJob", R"("schedule":"@daily")")).size(), 1U);
  EXPECT_EQ(FaultsOf(ControllerText("apps/v1", "Deployment", "")).size(), 1U);
}

// Without a pod, what is wrong would be shown nowhere, and "all fit".
TEST(Manifest, HasAPodForAWrongNumberOfReplicas) {
  for (const char* replicas : {"-1", "1e3", "\"3\"", "1000000000000000000", "2147483648"}) {
    const auto pods = PodsOf({ControllerText(
        "apps/v1", "Deployment", "\"replicas\":" + std::string(replicas) + "," + kTemplate)});
    ASSERT_EQ(pods.size(), 1U) << replicas;
    ASSERT_FALSE(pods[0].faults.empty()) << replicas;
    EXPECT_TRUE(pods[0].faults[0].starts_with("spec.replicas: ")) << pods[0].faults[0];
  }
  EXPECT_TRUE(
      PodsOf({ControllerText("apps/v1", "Deployment", R"("replicas":0,)" + std::string(kTemplate))})
          .empty());
}

TEST(Manifest, LimitsTheContainersOfAllPods) {
  std::string containers;
  for (int i = 0; i < 31; ++i) {
    containers += (i > 0 ? "," : "") + (R"({"name":"c)" + std::to_string(i)) + R"("})";
  }
  const std::string web = ControllerText(
      "apps/v1", "Deployment", R"("template":{"spec":{"containers":[)" + containers + "]}}");
  EXPECT_TRUE(ExpandPods(ManifestsOf({web}), 9'677).ok());  // 299,987
  const auto pods = ExpandPods(ManifestsOf({web}), 9'678);
  ASSERT_FALSE(pods.ok());
  EXPECT_EQ(pods.error().message,
            "f.yaml: Deployment shop/web: with it, the pods have more than 300000 containers");
  EXPECT_EQ(pods.error().remedy, "plan fewer pods at once");
}

TEST(Manifest, ReadsLists) {
  const std::string pod = R"({"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c"}]}})";
  const auto named = [&](const std::string& name) {
    return std::string(pod).replace(pod.find("NAME"), 4, name);
  };
  const std::string ended = R"({"metadata":{"name":"old"},"status":{"phase":"Succeeded"}})";
  const Manifests manifests = ManifestsOf(
      {R"({"apiVersion":"v1","kind":"PodList","items":[)" + named("a") + "," + ended + "]}",
       R"({"apiVersion":"v1","kind":"List","items":[)" + PodText("{}") +
           R"(,{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}]})"});
  EXPECT_EQ(manifests.workloads.size(), 2U);
  EXPECT_EQ(manifests.skipped, (Texts{"Pod default/old has ended", "Service s has no pods"}));
  EXPECT_EQ(ReadErrorOf(R"({"apiVersion":"v1","kind":"List","items":[)" + named("a") + "]}"),
            "items[0]: kind: is missing; add it: apiVersion: v1 and kind: Pod for a pod");
}

TEST(Manifest, RefusesTheSamePodTwice) {
  const Result<std::vector<PlannedPod>> twice =
      ExpandPods(ManifestsOf({PodText("{}"), PodText("{}")}), std::nullopt);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message,
            "two pods are named default/p: f.yaml: Pod default/p and f.yaml: Pod default/p");
  const auto with_uid = [](const std::string& name) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u","name":")" + name +
           R"("},"spec":{"containers":[{"name":"c"}]}})";
  };
  EXPECT_FALSE(ExpandPods(ManifestsOf({with_uid("a"), with_uid("b")}), std::nullopt).ok());
  EXPECT_TRUE(ExpandPods(ManifestsOf({with_uid("a")}), std::nullopt).ok());
}

TEST(Manifest, RefusesTheSameControllerTwice) {
  const std::string web = ControllerText("apps/v1", "Deployment", kTemplate);
  EXPECT_FALSE(ExpandPods(ManifestsOf({web, web}), std::nullopt).ok());
  EXPECT_EQ(PodsOf({web, ControllerText("apps/v1", "ReplicaSet", kTemplate)}).size(), 2U);
}

TEST(Manifest, GivesPodsOfOneGenerateNameDifferentNames) {
  const std::string pod =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-"},"spec":{"containers":)"
      R"([{"name":"c"}]}})";
  const std::vector<PlannedPod> pods = PodsOf({pod, pod});
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_EQ(pods[0].faults, Texts{});
  EXPECT_NE(pods[0].pod.uid, pods[1].pod.uid);
}

TEST(Manifest, GivesReplicasDistinctNamesAndUids) {
  const std::vector<PlannedPod> pods = PodsOf({PodText("{}")}, 10'000);
  EXPECT_EQ(pods.size(), 10'000U);  // ExpandPods refuses equal ones
  EXPECT_EQ(pods.front().pod.name.size(), std::string("p-").size() + 5);
  EXPECT_EQ(pods.front().pod.uid, "default/" + pods.front().pod.name);
  EXPECT_EQ(NamesOfPods(PodsOf({PodText("{}")}, 3)), NamesOfPods(PodsOf({PodText("{}")}, 3)));
}

TEST(Manifest, RefusesWhatItCannotRead) {
  for (const char* text :
       {"[]", "1", "{", R"({"kind":"Pod"})", R"({"apiVersion":"v1"})",
        R"({"apiVersion":"v1","kind":"Gang"})", R"({"apiVersion":"v1","kind":"LimitRange"})",
        R"({"apiVersion":"v1","kind":"ResourceQuota"})", R"({"apiVersion":"v2","kind":"Pod"})",
        R"({"apiVersion":"v1","kind":"Pod","kind":"Pod"})", R"({"apiVersion":"v1","kind":7})",
        R"({"apiVersion":"v1","kind":"List","items":{}})",
        R"({"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List"}]})"}) {
    EXPECT_NE(ReadErrorOf(text), "") << text;
  }
}

TEST(Manifest, PodsOfControllersHaveTheLabelsOfTheirTemplate) {
  const std::string metadata = R"({"name":"p","labels":{"koordinator.sh/qosClass":"SYSTEM"}})";
  const std::string pod =
      R"("metadata":)" + metadata + R"(,"spec":{"containers":[{"name":"app"}]}})";
  const auto own = PodsOf({R"({"apiVersion":"v1","kind":"Pod",)" + pod}).at(0).pod.policies;
  EXPECT_NE(own, PodPolicies());
  for (const char* kind : {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}) {
    const auto pods = PodsOf({ControllerText("apps/v1", kind, R"("template":{)" + pod)});
    ASSERT_EQ(pods.size(), 1U);
    EXPECT_EQ(pods.front().pod.policies, own) << kind;
  }
  const auto job = PodsOf({ControllerText("batch/v1", "Job", R"("template":{)" + OfJob(pod))});
  EXPECT_EQ(job.at(0).pod.policies, own);
}

TEST(Manifest, ExtendedResourcesOfClaimsAreUndecided) {
  const std::string spec =
      R"("spec":{"containers":[{"name":"app","resources":{"limits":{"a.com/gpu":"1"}}}]})";
  const std::string status =
      R"(,"status":{"extendedResourceClaimStatus":{"resourceClaimName":"c","requestMappings":)"
      R"([{"containerName":"app","resourceName":"a.com/gpu","requestName":"r"}]}})";
  const auto undecided = [&](const std::string& uid) {
    return PodsOf({R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p")" + uid + "}," + spec +
                   status + "}"})
        .at(0)
        .undecided;
  };
  ASSERT_EQ(undecided(R"(,"uid":"u")").size(), 1U);
  EXPECT_TRUE(undecided(R"(,"uid":"u")")[0].starts_with("status.extendedResourceClaimStatus: "));
  EXPECT_EQ(undecided(""), Texts{});  // the API server ignores the status of a new pod
}

TEST(Manifest, ChecksTolerations) {
  const auto faults = [](const std::string& toleration) {
    return FaultsOf(PodText("{}", R"("tolerations":[)" + toleration + "],"));
  };
  EXPECT_EQ(faults(R"({"operator":"Exists"})"), Texts{});
  EXPECT_EQ(faults(R"({"key":"k","value":"v","effect":"NoSchedule"})"), Texts{});
  EXPECT_EQ(
      faults(R"({"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":-5})"),
      Texts{});
  const std::string path = "spec.tolerations[0].";
  const auto ends_with_fault = [&](const std::string& toleration, const std::string& fault) {
    const Texts found = faults(toleration);
    ASSERT_EQ(found.size(), 1U) << toleration;
    EXPECT_EQ(found[0].substr(0, fault.size()), fault);
  };
  ends_with_fault(R"({"key":"k","operator":"Exists","foo":1})", path + "foo: unknown field");
  ends_with_fault(R"({"key":"k","operator":"Exists","value":"v"})",
                  path + "operator: Invalid value: \"v\": value must be empty");
  ends_with_fault(R"({"key":"k","operator":"Exists","effect":"NoSchedule","tolerationSeconds":5})",
                  path + "effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'");
  ends_with_fault(R"({"key":"k","operator":"exists"})",
                  path + "operator: Unsupported value: \"exists\": supported values: \"Equal\"");
  ends_with_fault(R"({"key":"k","effect":"noschedule"})",
                  path + "effect: Unsupported value: \"noschedule\"");
  ends_with_fault(R"({"operator":"Equal","value":"v"})",
                  path + "operator: Invalid value: \"Equal\": operator must be Exists");
  ends_with_fault(R"({"key":"a b"})", path + "key: Invalid value: \"a b\"");
  ends_with_fault(R"({"key":"k","value":"-"})", path + "operator: Invalid value: \"-\"");
  ends_with_fault(R"({"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":"5"})",
                  path + "tolerationSeconds: ");
}

TEST(Manifest, ChecksSchedulingGatesAndTheSystem) {
  EXPECT_EQ(FaultsOf(PodText("{}", R"("schedulingGates":[{"name":"a.com/b"}],)")), Texts{});
  EXPECT_EQ(
      FaultsOf(PodText("{}", R"("schedulingGates":[{"name":"a"},{"name":"a"},{"x":1}],)")).size(),
      3U);
  EXPECT_EQ(PodsOf({PodText("{}", R"("os":{"name":"windows"},)")}).at(0).os, "windows");
  EXPECT_EQ(FaultsOf(PodText("{}", R"("os":{"name":"plan9"},)")).size(), 1U);
  EXPECT_EQ(FaultsOf(PodText("{}", R"("os":{},)")), Texts{"spec.os.name: Required value"});
}

TEST(Manifest, TheControllerLetsPodsOfADaemonSetTolerateItsTaints) {
  const auto tolerations = [](const std::string& kind, const std::string& more) {
    return PodsOf({ControllerText(
                      "apps/v1", kind,
                      R"("template":{"spec":{)" + more + R"("containers":[{"name":"app"}]}})")})
        .at(0)
        .tolerations;
  };
  EXPECT_EQ(tolerations("DaemonSet", "").size(), 6U);
  EXPECT_EQ(tolerations("DaemonSet", R"("hostNetwork":true,)").size(), 7U);
  const Toleration cordoned{"node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"};
  EXPECT_EQ(tolerations("DaemonSet", "").back(), cordoned);
  EXPECT_EQ(tolerations("Deployment", "").size(), 2U);  // as each pod
}

TEST(Manifest, APodHasTheHandlerOfItsRuntimeClass) {
  const auto handler = [](const std::string& pod_class, const std::string& more = "") {
    std::vector<std::string> texts = {PodText("{}", R"("runtimeClassName":")" + pod_class + "\",")};
    if (!more.empty()) {
      texts.push_back(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","handler":")" + more +
                      R"(","metadata":{"name":")" + pod_class + "\"}}");
    }
    return PodsOf(texts).at(0).runtime_handler;
  };
  EXPECT_EQ(handler("sandboxed", "runsc"), "runsc");
  EXPECT_EQ(handler("kata", "runc"), "runc");
  EXPECT_EQ(handler("kata-qemu"), "kata-qemu");  // the usual name of the class
  EXPECT_EQ(handler("nvidia"), "nvidia");
  EXPECT_EQ(ReadErrorOf(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",)"
                        R"("metadata":{"name":"a"}})")
                .substr(0, 39),
            "RuntimeClass a: handler: Required value");
}

// A Job's pods must end; those of other controllers must not.
TEST(Manifest, ChecksTheRestartPolicy) {
  const auto fault = [](const char* kind, const std::string& policy) {
    const std::string version = std::string(kind) == "Job" ? "batch/v1" : "apps/v1";
    const std::string member = policy.empty() ? "" : R"("restartPolicy":")" + policy + R"(",)";
    const Texts faults = FaultsOf(
        ControllerText(version.c_str(), kind,
                       R"("template":{"spec":{)" + member + R"("containers":[{"name":"app"}]}})"));
    return faults.empty() ? std::string() : faults.front();
  };
  const std::string path = "spec.template.spec.restartPolicy: ";
  const std::string required = path + R"(Required value: valid values: "OnFailure", "Never")";
  EXPECT_EQ(fault("Job", ""), required);
  EXPECT_EQ(fault("Job", "Always"), required);
  EXPECT_EQ(fault("Job", "OnFailure"), "");
  EXPECT_EQ(fault("Job", "Once"), path +
                                      R"(Unsupported value: "Once": supported values: "Always", )"
                                      R"("Never", "OnFailure")");
  for (const char* const kind : {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}) {
    EXPECT_EQ(fault(kind, ""), "");
    EXPECT_EQ(fault(kind, "Always"), "");
    EXPECT_EQ(fault(kind, "Never"),
              path + R"(Unsupported value: "Never": supported values: "Always")");
  }
}

TEST(Manifest, ASuspendedJobHasNoPods) {
  const std::string spec = std::string(R"("suspend":true,)") + kTemplate;
  const Manifests manifests = ManifestsOf({ControllerText("batch/v1", "Job", spec)});
  EXPECT_TRUE(manifests.workloads.empty());
  EXPECT_EQ(manifests.skipped, Texts{"Job shop/web is suspended: it has no pods"});
}

// The API server can be newer than this program.
TEST(Manifest, ObjectsOfTheApiServerMayHaveUnknownFields) {
  const auto faults = [](const std::string& resources, const std::string& more,
                         ManifestOrigin origin) {
    Manifests manifests;
    EXPECT_TRUE(ReadManifest(PodText(resources, more), "f", manifests, origin).ok());
    return manifests.workloads.at(0).pod.faults.size();
  };
  EXPECT_EQ(faults("{}", R"("brandNew":1,)", ManifestOrigin::kFile), 1U);
  EXPECT_EQ(faults("{}", R"("brandNew":1,)", ManifestOrigin::kApiServer), 0U);
  EXPECT_EQ(faults(R"({"brandNew":1})", "", ManifestOrigin::kApiServer), 1U);
}

// As `kubectl get pods -o json` prints them.
TEST(Manifest, TakesAPodWithAPhaseAsTheApiServerHasIt) {
  const auto pod = [](const std::string& uid, const std::string& status) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p")" + uid +
           R"(},"spec":{"brandNew":1,"containers":[{"name":"app","image":"i","resources":)"
           R"({"requests":{"cpu":"3"}}}]},"status":)" +
           status + "}";
  };
  const std::string uid = R"(,"uid":"u")";
  EXPECT_EQ(FaultsOf(pod("", R"({"phase":"Running"})")).size(), 1U);
  EXPECT_EQ(FaultsOf(pod(uid, "{}")).size(), 1U);
  EXPECT_EQ(FaultsOf(pod(uid, R"({"phase":"Running"})")), Texts{});
  PlannedPod planned = PodsOf({pod(uid, R"({"phase":"Pending"})")}).at(0);
  EXPECT_TRUE(planned.is_pending);
  EXPECT_FALSE(planned.is_resizing);
  planned = PodsOf({pod(uid, R"({"phase":"Running","containerStatuses":[{"name":"app",)"
                             R"("allocatedResources":{"cpu":"5"},"resources":{"requests":)"
                             R"({"cpu":"5"}}}]})")})
                .at(0);
  EXPECT_TRUE(planned.is_resizing);
  EXPECT_FALSE(planned.is_pending);
  EXPECT_EQ(planned.pod.containers[0].resources.requests.at("cpu"), Quantity(5));
  planned = PodsOf({pod(uid, R"({"phase":"Running","containerStatuses":[{"name":"app",)"
                             R"("resources":{"requests":{"cpu":"x"}}}]})")})
                .at(0);
  EXPECT_EQ(planned.faults.size(), 1U);
}

TEST(Manifest, SurvivesWrongTypesEverywhere) {
  for (const char* value : {"null", "1", "\"x\"", "[]", "{}", "[1]", "[{}]", "true"}) {
    for (const char* key : {"metadata", "spec", "status"}) {
      Manifests manifests;
      const std::string text =
          std::string(R"({"apiVersion":"v1","kind":"Pod",")") + key + "\":" + value + "}";
      if (!ReadManifest(text, "f", manifests).ok()) continue;
      const auto pods = ExpandPods(manifests, std::nullopt);
      ASSERT_TRUE(pods.ok());
      EXPECT_FALSE(pods->at(0).faults.empty()) << text;
    }
    for (const char* key : {"containers", "initContainers", "resources", "overhead", "tolerations",
                            "nodeSelector", "resourceClaims", "schedulingGates", "os"}) {
      Manifests manifests;
      const std::string text = std::string(R"({"apiVersion":"apps/v1","kind":"Deployment",)") +
                               R"("metadata":{"name":"d"},"spec":{"template":{"spec":{")" + key +
                               "\":" + value + "}}}}";
      EXPECT_TRUE(ReadManifest(text, "f", manifests).ok()) << text;
      EXPECT_FALSE(manifests.workloads.at(0).pod.faults.empty()) << text;
    }
  }
}

}  // namespace
}  // namespace alignd::placement
