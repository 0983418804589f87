// Manifests: which objects are read, which are skipped, and which names and fields they may have.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/placement/manifest.h"

namespace alignd::placement {
namespace {

using Texts = std::vector<std::string>;

// What is wrong with the object; empty: nothing. `skipped` is what is left out.
std::string ObjectErrorOf(const std::string& text, Texts* skipped = nullptr) {
  Manifests manifests;
  const Result<Done> read = ReadManifest(text, "f.yaml", manifests);
  if (skipped != nullptr) *skipped = manifests.skipped;
  return read.ok() ? "" : read.error().message;
}

// Why the API server refuses the pod with these parts of its metadata and spec.
Texts FaultsWith(const std::string& more_metadata, const std::string& more_spec = "",
                 const std::string& status = "") {
  const std::string text = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p")" +
                           more_metadata + R"(},"spec":{"containers":[{"name":"app"}])" +
                           more_spec + "}" + status + "}";
  Manifests manifests;
  const Result<Done> read = ReadManifest(text, "f.yaml", manifests);
  EXPECT_TRUE(read.ok()) << text;
  EXPECT_EQ(manifests.workloads.size(), 1U);
  return manifests.workloads.empty() ? Texts{} : manifests.workloads.front().pod.faults;
}

// A Service of Knative makes pods, one of Kubernetes does not.
TEST(ManifestObjects, OnlyKindsOfKubernetesHaveNoPods) {
  Texts skipped;
  const auto object = [](const std::string& version, const std::string& kind) {
    return R"({"apiVersion":")" + version + R"(","kind":")" + kind +
           R"(","metadata":{"name":"web"}})";
  };
  for (const auto& [version, kind] :
       {std::pair("v1", "Service"), std::pair("networking.k8s.io/v1", "Ingress"),
        std::pair("autoscaling/v2", "HorizontalPodAutoscaler"),
        std::pair("rbac.authorization.k8s.io/v1", "Role")}) {
    EXPECT_EQ(ObjectErrorOf(object(version, kind), &skipped), "");
    EXPECT_EQ(skipped, Texts{std::string(kind) + " web has no pods"});
  }
  for (const auto& [version, kind] :
       {std::pair("serving.knative.dev/v1", "Service"), std::pair("example.com/v1", "Role"),
        std::pair("example.com/v1", "ConfigMap"), std::pair("example.com/v1", "RuntimeClass"),
        std::pair("v1", "ReplicationController")}) {
    EXPECT_EQ(ObjectErrorOf(object(version, kind), &skipped),
              std::string("kind: \"") + kind + "\" of version \"" + version + "\" is not known");
    EXPECT_EQ(skipped, Texts{});
  }
}

TEST(ManifestObjects, AListHasNoOtherFields) {
  const auto list = [](const std::string& kind, const std::string& items) {
    return R"({"apiVersion":"v1","kind":")" + kind + R"(","metadata":{"resourceVersion":"1"},")" +
           items + R"(":[]})";
  };
  for (const char* const kind : {"List", "PodList"}) {
    EXPECT_EQ(ObjectErrorOf(list(kind, "items")), "");
    EXPECT_EQ(ObjectErrorOf(list(kind, "itens")), "itens: unknown field; did you mean \"items\"?");
  }
}

TEST(ManifestObjects, LabelsAndAnnotationsHaveNamesOfKubernetes) {
  const std::string name =
      "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
      "with an alphanumeric character, with at most 63 characters and an optional DNS subdomain "
      "prefix and '/'";
  const std::string value =
      "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
      "'.', and must start and end with an alphanumeric character, with at most 63 characters";
  EXPECT_EQ(FaultsWith(R"(,"labels":{"a.com/b":"c","d":""},"annotations":{"A.com/b":"{ c }"})"),
            Texts{});
  EXPECT_EQ(FaultsWith(R"(,"labels":{"koordinator.sh/qosClass":"LSE "})"),
            Texts{"metadata.labels: Invalid value: \"LSE \": " + value});
  EXPECT_EQ(FaultsWith(R"(,"labels":{"a b":"c"})"),
            Texts{"metadata.labels: Invalid value: \"a b\": " + name});
  EXPECT_EQ(FaultsWith(R"(,"annotations":{"alignd.io/shared-cpus/pod":"x"})"),
            Texts{"metadata.annotations: Invalid value: \"alignd.io/shared-cpus/pod\": " + name});
  EXPECT_EQ(FaultsWith(R"(,"annotations":{"a":")" + std::string(256 << 10, 'x') + "\"}"),
            Texts{"metadata.annotations: Too long: may not be more than 262144 bytes"});
  EXPECT_EQ(FaultsWith(R"(,"annotations":{"a":")" + std::string((256 << 10) - 1, 'x') + "\"}"),
            Texts{});
  EXPECT_EQ(FaultsWith("", R"(,"nodeSelector":{"zone":"a b"})"),
            Texts{"spec.nodeSelector: Invalid value: \"a b\": " + value});
  // A newer API server can accept more.
  EXPECT_EQ(FaultsWith(R"(,"uid":"u","labels":{"a":"b c"})", R"(,"nodeName":"A_B")",
                       R"(,"status":{"phase":"Running"})"),
            Texts{});
}

// The node knows a static pod by the hash of its manifest, the API server by that of its mirror.
TEST(ManifestObjects, MirrorPodsHaveTheUidOfTheirStaticPod) {
  const auto uid_of = [](const std::string& annotations) {
    Manifests manifests;
    EXPECT_TRUE(ReadManifest(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u")" +
                                 annotations +
                                 R"(},"spec":{"containers":[{"name":"a","image":"i"}]}})",
                             "f", manifests)
                    .ok());
    return ExpandPods(manifests, std::nullopt)->at(0).pod.uid;
  };
  EXPECT_EQ(uid_of(""), "u");
  const std::string mirror = R"(,"annotations":{"kubernetes.io/config.mirror":"0a1b"})";
  const auto owned_by = [](const std::string& kind) {
    return R"(,"ownerReferences":[{"apiVersion":"v1","kind":")" + kind +
           R"(","name":"n","uid":"1","controller":true}])";
  };
  EXPECT_EQ(uid_of(mirror + owned_by("Node")), "0a1b");
  EXPECT_EQ(uid_of(mirror), "u") << "any author can write it";
  EXPECT_EQ(uid_of(mirror + owned_by("ReplicaSet")), "u");
  EXPECT_EQ(uid_of(R"(,"annotations":{"kubernetes.io/config.mirror":""})" + owned_by("Node")), "u");
}

TEST(ManifestObjects, OtherObjectsHaveNamesOfKubernetes) {
  const std::string subdomain =
      "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
      "'.', and must start and end with an alphanumeric character, with at most 253 characters";
  EXPECT_EQ(FaultsWith("", R"(,"nodeName":"A_B")"),
            Texts{"spec.nodeName: Invalid value: \"A_B\": " + subdomain});
  EXPECT_EQ(FaultsWith("", R"(,"runtimeClassName":"A_B")"),
            Texts{"spec.runtimeClassName: Invalid value: \"A_B\": " + subdomain});
}

TEST(ManifestObjects, ACronJobHasAShorterName) {
  const auto faults = [](size_t length) {
    Manifests manifests;
    const Result<Done> read = ReadManifest(
        R"({"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":")" +
            std::string(length, 'c') +
            R"("},"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":)"
            R"({"restartPolicy":"Never","containers":[{"name":"app"}]}}}}}})",
        "f.yaml", manifests);
    EXPECT_TRUE(read.ok());
    return manifests.workloads.at(0).pod.faults;
  };
  EXPECT_EQ(faults(52), Texts{});
  EXPECT_EQ(faults(53), Texts{"metadata.name: Invalid value: \"" + std::string(53, 'c') +
                              "\": must be no more than 52 characters"});
}

TEST(ManifestObjects, AFaultIsNamedOnce) {
  Manifests manifests;
  ASSERT_TRUE(ReadManifest(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},)"
                           R"("spec":{"containers":{"name":"app"}}})",
                           "f.yaml", manifests)
                  .ok());
  EXPECT_EQ(manifests.workloads.at(0).pod.faults,
            (Texts{"spec.containers: object is not a list", "spec.containers: Required value"}));
}

// A misspelt overhead would be none.
TEST(ManifestObjects, ARuntimeClassIsValidated) {
  const auto object = [](const std::string& rest, const std::string& more_metadata = "") {
    return R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"kata")" +
           more_metadata + "}," + rest + "}";
  };
  const std::string prefix = "RuntimeClass kata: ";
  EXPECT_EQ(ObjectErrorOf(object(R"("handler":"kata","overhead":{"podFixed":{"cpu":"1"}})")), "");
  EXPECT_EQ(ObjectErrorOf(object(R"("handler":"kata","overhed":{"podFixed":{"cpu":"1"}})")),
            prefix + "overhed: unknown field; did you mean \"overhead\"?");
  EXPECT_EQ(ObjectErrorOf(object(R"("handler":"kata","overhead":{"podfixed":{"cpu":"1"}})")),
            prefix + "overhead.podfixed: unknown field; did you mean \"podFixed\"?");
  EXPECT_EQ(ObjectErrorOf(object(R"("overhead":{})")), prefix + "handler: Required value");
  EXPECT_EQ(ObjectErrorOf(object(R"("handler":"kata","new":1)", R"(,"uid":"u")")), "");
  Manifests manifests;
  const std::string first = object(R"("handler":"kata","overhead":{"podFixed":{"cpu":"1"}})");
  ASSERT_TRUE(ReadManifest(first, "f", manifests).ok());
  EXPECT_TRUE(ReadManifest(first, "f", manifests).ok());
  const Result<Done> other = ReadManifest(object(R"("handler":"kata")"), "f", manifests);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message, "two RuntimeClasses are named kata");
}

}  // namespace
}  // namespace alignd::placement
