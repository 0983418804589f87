// The annotations with which a pod asks for policies.
#include "alignd/pod/pod_policies.h"

#include <gtest/gtest.h>

#include <string>

#include "alignd/pod/kubernetes_pod.h"

namespace alignd {
namespace {

PodPolicies ReadSpec(const std::string& value) {
  PodPolicies policies;
  ReadPodPolicies(kNumaTopologyAnnotation, value, policies);
  return policies;
}

TEST(PodPolicies, ReadsKoordinatorsValues) {
  const auto policy_of = [](const std::string& value) {
    const PodPolicies policies = ReadSpec(value);
    EXPECT_EQ(policies.fault, "") << value;
    return policies.numa_topology;
  };
  EXPECT_EQ(policy_of(R"({"numaTopologyPolicy":"BestEffort"})"), NumaTopologyPolicy::kBestEffort);
  EXPECT_EQ(policy_of(R"({"numaTopologyPolicy":"Restricted"})"), NumaTopologyPolicy::kRestricted);
  EXPECT_EQ(
      policy_of(R"({"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"})"),
      NumaTopologyPolicy::kSingleNumaNode);
  for (const char* const none :
       {"{}", R"({"numaTopologyPolicy":""})", R"({"numaTopologyPolicy":null})",
        R"({"singleNUMANodeExclusive":""})"}) {
    EXPECT_EQ(policy_of(none), std::nullopt) << none;
  }
}

TEST(PodPolicies, NamesAnnotationValueAndAllowedValues) {
  struct Case {
    std::string value;
    std::string fault;
  };
  for (const Case& c : {
           Case{R"({"numaTopologyPolicy":"single-numa-node"})",
                R"(numaTopologyPolicy: "single-numa-node" is not "BestEffort", "Restricted", )"
                R"("SingleNUMANode" or "")"},
           Case{R"({"numaTopologyPolicy":1})", "numaTopologyPolicy: 1 is not a string"},
           Case{R"({"singleNUMANodeExclusive":"Always"})",
                R"(singleNUMANodeExclusive: "Always" is not "Required", "Preferred" or "")"},
           Case{R"({"numaTopology":"Restricted"})",
                "numaTopology: is not known; known are numaTopologyPolicy, "
                "singleNUMANodeExclusive"},
           // A name of several lines makes no line of its own.
           Case{R"({"x\nfits":1})",
                R"(x\nfits: is not known; known are numaTopologyPolicy, singleNUMANodeExclusive)"},
           Case{R"({"x\n":1,"x\n":1})", R"(x\n: occurs twice in one object)"},
           Case{"[]", "array is not an object"},
           Case{R"({"numaTopologyPolicy":"Restricted","numaTopologyPolicy":"BestEffort"})",
                "numaTopologyPolicy: occurs twice in one object"},
           Case{std::string(5000, ' '), "is longer than 4096 bytes"},
       }) {
    const PodPolicies policies = ReadSpec(c.value);
    EXPECT_EQ(policies.numa_topology, std::nullopt) << c.value;
    EXPECT_EQ(policies.fault,
              "annotation scheduling.koordinator.sh/numa-topology-spec: " + c.fault);
  }
  // As in an example of Koordinator's, whose scheduler does not read it either.
  for (const char* const no_json :
       {"SingleNUMANode", R"({"numaTopologyPolicy": "SingleNUMANode",})", ""}) {
    const PodPolicies policies = ReadSpec(no_json);
    EXPECT_EQ(policies.numa_topology, std::nullopt);
    EXPECT_TRUE(policies.fault.starts_with("annotation " + std::string(kNumaTopologyAnnotation)))
        << policies.fault;
  }
}

PodPolicies ReadCpuSpec(const std::string& value) {
  PodPolicies policies;
  ReadPodPolicies(kResourceSpecAnnotation, value, policies);
  return policies;
}

TEST(PodPolicies, ReadsKoordinatorsCpuPolicies) {
  using Bind = CpuBindPolicy;
  using Exclusive = CpuExclusivePolicy;
  struct Case {
    std::string value;
    PodPolicies expected;
  };
  for (const Case& c : {
           Case{R"({"requiredCPUBindPolicy":"FullPCPUs"})", {.required_bind = Bind::kFullPcpus}},
           Case{R"({"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUBindPolicy":"FullPCPUs"})",
                {.required_bind = Bind::kSpreadByPcpus, .preferred_bind = Bind::kFullPcpus}},
           Case{R"({"requiredCPUBindPolicy":"Default"})", {.required_bind = Bind::kFullPcpus}},
           Case{R"({"preferredCPUBindPolicy":"Default"})", {.preferred_bind = Bind::kFullPcpus}},
           Case{R"({"preferredCPUExclusivePolicy":"PCPULevel"})",
                {.exclusive = Exclusive::kPcpuLevel}},
           Case{R"({"preferredCPUExclusivePolicy":"NUMANodeLevel"})",
                {.exclusive = Exclusive::kNumaNodeLevel}},
           Case{R"({"preferredCPUExclusivePolicy":"None","preferredCPUBindPolicy":""})", {}},
           Case{R"({"requiredCPUBindPolicy":null})", {}},
           Case{"{}", {}},
       }) {
    EXPECT_EQ(ReadCpuSpec(c.value), c.expected) << c.value;
  }
}

TEST(PodPolicies, NamesWhatIsWrongWithCpuPolicies) {
  struct Case {
    std::string value;
    std::string fault;
  };
  for (const Case& c : {
           Case{R"({"requiredCPUBindPolicy":"full"})",
                R"(requiredCPUBindPolicy: "full" is not "FullPCPUs", "SpreadByPCPUs", "Default" )"
                R"(or "")"},
           Case{
               R"({"preferredCPUBindPolicy":"ConstrainedBurst"})",
               R"(preferredCPUBindPolicy: "ConstrainedBurst" is not "FullPCPUs", )"
               R"("SpreadByPCPUs", "Default" or "": "ConstrainedBurst" is not supported, as )"
               "Koordinator's scheduler does not follow it; shared CPUs of one NUMA node are asked "
               "for with annotation alignd.io/shared-cpus"},
           Case{R"({"preferredCPUExclusivePolicy":"Default"})",
                R"(preferredCPUExclusivePolicy: "Default" is not "PCPULevel", "NUMANodeLevel", )"
                R"("None" or "")"},
           Case{R"({"requiredCPUBindPolicy":true})", "requiredCPUBindPolicy: true is not a string"},
           Case{R"({"cpuBindPolicy":"FullPCPUs"})",
                "cpuBindPolicy: is not known; known are requiredCPUBindPolicy, "
                "preferredCPUBindPolicy, preferredCPUExclusivePolicy"},
           Case{std::string(5000, ' '), "is longer than 4096 bytes"},
       }) {
    const PodPolicies policies = ReadCpuSpec(c.value);
    const PodPolicies expected{
        .spec_fault = "annotation scheduling.koordinator.sh/resource-spec: " + c.fault};
    EXPECT_EQ(policies, expected) << c.value << policies.spec_fault;
  }
}

PodPolicies ReadStatus(const std::string& value) {
  PodPolicies policies;
  ReadPodPolicies(kResourceStatusAnnotation, value, policies);
  return policies;
}

TEST(PodPolicies, ReadsWhatAKoordinatorSchedulerHasDecided) {
  const PodPolicies decided =
      ReadStatus(R"({"cpuset":"0-3,8","numaNodeResources":[{"node":1,"resources":{"cpu":"2",)"
                 R"("memory":"1Gi"}},{"resources":null}]})");
  EXPECT_EQ(decided.status_fault, "");
  EXPECT_EQ(decided.cpuset.ToString(), "0-3,8");
  const NumaNodeResources expected = {
      {0, {}}, {1, {{"cpu", Quantity(2)}, {"memory", *Quantity::Parse("1Gi")}}}};
  EXPECT_EQ(decided.numa_resources, expected);
  EXPECT_EQ(ReadStatus("{}"), PodPolicies());
  EXPECT_EQ(ReadStatus(R"({"cpuset":"","numaNodeResources":null})"), PodPolicies());
}

// As Kubernetes' Quantity.
TEST(PodPolicies, AmountsOfADecisionCanBeNumbers) {
  const PodPolicies decided = ReadStatus(
      R"({"numaNodeResources":[{"node":0,"resources":{"cpu":1.5,"memory":1073741824,"a.com/x":1e3}}]})");
  EXPECT_EQ(decided.status_fault, "");
  const NumaNodeResources expected = {{0,
                                       {{"a.com/x", Quantity(1000)},
                                        {"cpu", *Quantity::Parse("1500m")},
                                        {"memory", *Quantity::Parse("1Gi")}}}};
  EXPECT_EQ(decided.numa_resources, expected);
  EXPECT_NE(ReadStatus(R"({"numaNodeResources":[{"resources":{"cpu":-1}}]})").status_fault, "");
  EXPECT_NE(ReadStatus(R"({"numaNodeResources":[{"resources":{"cpu":true}}]})").status_fault, "");
}

// Koordinator before 1.3.
TEST(PodPolicies, NamesSharedPoolsOfADecisionAsNotSupported) {
  const PodPolicies decided =
      ReadStatus(R"({"cpuset":"4-5","cpuSharedPools":[{"socket":0,"node":0,"cpuset":"0-3"}]})");
  EXPECT_EQ(decided.status_fault, "");
  EXPECT_EQ(decided.cpuset.ToString(), "4-5");
  EXPECT_EQ(decided.unsupported,
            std::set<std::string>{"scheduling.koordinator.sh/resource-status (cpuSharedPools)"});
}

TEST(PodPolicies, NamesWhatIsWrongWithADecision) {
  struct Case {
    std::string value;
    std::string fault;
  };
  for (const Case& c : {
           Case{R"({"cpuset":"0-"})", R"(cpuset: "0-" is not a list of CPUs such as "0-3,8")"},
           Case{R"({"cpuset":[0]})", "cpuset: array is not a string"},
           Case{R"({"cpuShares":[]})",
                "cpuShares: is not known; known are cpuset, numaNodeResources, cpuSharedPools"},
           Case{R"({"numaNodeResources":{}})", "numaNodeResources: object is not a list"},
           Case{R"({"numaNodeResources":[{"node":-1}]})", "numaNodeResources[0].node: -1 is not"},
           Case{R"({"numaNodeResources":[{"numa":0}]})",
                "numaNodeResources[0].numa: is not known; known are node, resources"},
           Case{R"({"numaNodeResources":[{"node":0},{"node":0}]})",
                "numaNodeResources[1]: has its node twice"},
           Case{R"({"numaNodeResources":[{"resources":{"cpu":"two"}}]})",
                R"(numaNodeResources[0].resources.cpu: "two" is not an amount such as "4" or )"
                R"("1Gi")"},
           Case{R"({"numaNodeResources":[{"resources":{"a b":"1"}}]})",
                "numaNodeResources[0].resources.a b: is not the name of a resource"},
           Case{R"({"numaNodeResources":[{"resources":{"cpu":"-2"}}]})",
                "numaNodeResources[0].resources.cpu: is negative"},
           Case{std::string(17000, ' '), "is longer than 16384 bytes"},
       }) {
    PodPolicies policies = ReadStatus(c.value);
    EXPECT_TRUE(policies.status_fault.starts_with(
        "annotation scheduling.koordinator.sh/resource-status: " + c.fault))
        << policies.status_fault;
    policies.status_fault.clear();
    EXPECT_EQ(policies, PodPolicies()) << c.value;
  }
}

// A fault stands in refusals, reports and the log.
TEST(PodPolicies, AFaultIsOneShortLineWhateverTheAnnotationSays) {
  const std::string hostile = R"(\n\u001b[2J)" + std::string(9000, 'x');
  for (const std::string& value :
       {R"({"cpuset":")" + hostile + "\"}", R"({")" + hostile + R"(":1})",
        R"({"numaNodeResources":[{"resources":{"cpu":")" + hostile + "\"}}]}",
        R"({"numaNodeResources":[{"resources":{")" + hostile + "\":\"1\"}}]}",
        R"({"numaNodeResources":[{")" + hostile + "\":1}]}"}) {
    const std::string fault = ReadStatus(value).status_fault;
    EXPECT_NE(fault, "") << value;
    EXPECT_LT(fault.size(), 600u) << fault;
    EXPECT_EQ(fault.find_first_of("\n\x1b"), std::string::npos) << fault;
  }
  // It is cut before a character.
  std::string letters = R"({"cpuset":")";
  for (int i = 0; i < 100; ++i) letters += "\u00e9";
  EXPECT_NE(ReadStatus(letters + "\"}").status_fault.find("\u00e9... is not"), std::string::npos);
}

TEST(PodPolicies, ReadsWhetherSharedCpusAreOfOneNumaNode) {
  const auto read = [](const std::string& value) {
    PodPolicies policies;
    ReadPodPolicies("alignd.io/shared-cpus", value, policies);
    return policies;
  };
  EXPECT_EQ(read(""), PodPolicies());
  EXPECT_EQ(read("single-numa-node"), PodPolicies{.shared_on_one_node = true});
  EXPECT_EQ(read("SingleNUMANode").shared_fault,
            "annotation alignd.io/shared-cpus: \"SingleNUMANode\" is not \"single-numa-node\" or "
            "\"\"");
  const std::string hostile = read("\n\x1b[2J\xff" + std::string(9000, 'x')).shared_fault;
  EXPECT_LT(hostile.size(), 600u) << hostile;
  EXPECT_EQ(hostile.find_first_of("\n\x1b"), std::string::npos) << hostile;
}

TEST(PodPolicies, RequiredKeepsNumaNodesApart) {
  for (const auto& [value, is_apart] :
       {std::pair("Required", true), {"Preferred", false}, {"", false}}) {
    PodPolicies policies;
    ReadPodPolicies(kNumaTopologyAnnotation,
                    R"({"singleNUMANodeExclusive":")" + std::string(value) + "\"}", policies);
    EXPECT_EQ(policies.fault, "");
    EXPECT_EQ(policies.keeps_numa_apart, is_apart) << value;
  }
}

TEST(PodPolicies, OtherAnnotationsAreIgnored) {
  PodPolicies policies;
  ReadPodPolicies("scheduling.koordinator.sh/numa-topology", "nonsense", policies);
  EXPECT_EQ(policies, PodPolicies());
}

TEST(PodPolicies, AreReadFromAKubernetesPod) {
  const auto pod_with = [](const std::string& annotations) {
    return ParseKubernetesPod(R"({"metadata":{"name":"p","annotations":)" + annotations +
                              R"(},"spec":{"containers":[{"name":"a"}]}})");
  };
  const Result<Pod> pod = pod_with(
      R"({"a":"b","scheduling.koordinator.sh/numa-topology-spec":"{\"numaTopologyPolicy\":)"
      R"(\"Restricted\"}"})");
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_EQ(pod->policies.numa_topology, NumaTopologyPolicy::kRestricted);
  const Result<Pod> faulty =
      pod_with(R"({"scheduling.koordinator.sh/numa-topology-spec":"Restricted"})");
  ASSERT_TRUE(faulty.ok()) << faulty.error().Text();
  EXPECT_NE(faulty->policies.fault, "");
  const Result<Pod> none = pod_with("null");
  ASSERT_TRUE(none.ok()) << none.error().Text();
  EXPECT_EQ(none->policies, PodPolicies());
  EXPECT_FALSE(pod_with(R"({"a":1})").ok());
  EXPECT_FALSE(pod_with("[]").ok());
}

}  // namespace
}  // namespace alignd
