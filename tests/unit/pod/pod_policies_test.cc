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
                R"(singleNUMANodeExclusive: "Always" is not "Preferred" or "")"},
           Case{
               R"({"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Required"})",
               R"(singleNUMANodeExclusive: "Required" is not "Preferred" or "": "Required" is not )"
               R"(supported)"},
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
