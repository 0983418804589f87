#include "podsource/v1_pod.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/pod/kubernetes_pod.h"
#include "kubernetes/v1/pod.pb.h"

namespace alignd::podsource {
namespace {

namespace k8s = kubernetes::v1;

std::string Varint(size_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7f) | 0x80);
  return text + static_cast<char>(value);
}

// A length-delimited field in protobuf's encoding: number, length, bytes.
std::string Field(int number, const std::string& bytes) {
  return Varint(static_cast<size_t>(number) << 3 | 2) + Varint(bytes.size()) + bytes;
}

// A field with a number that is not negative.
std::string Number(int number, size_t value) {
  return Varint(static_cast<size_t>(number) << 3) + Varint(value);
}

std::string Entry(const std::string& name, const std::string& amount) {
  return Field(1, name) + Field(2, Field(1, amount));
}

// Encoded by hand, so that a wrong number in the .proto is found. Between the fields that alignd
// reads are some that it does not read.
TEST(V1Pod, IsParsedByTheFieldNumbersOfKubernetes) {
  const std::string limits = Field(1, Entry("cpu", "2")) + Field(1, Entry("memory", "64Mi")) +
                             Field(1, Entry("example.com/gpu", "1"));
  const std::string prepare =
      Field(1, "prepare") + Field(2, "image") + Field(8, Field(2, Entry("cpu", "1")));
  const std::string side = Field(1, "side") + Field(24, "Always");
  const std::string app = Field(1, "app") + Field(8, limits) + Field(14, "IfNotPresent");
  const std::string spec = Field(1, "volume") + Field(2, app) + Field(3, "Never") +
                           Field(20, prepare) + Field(20, side) + Field(24, "high-priority") +
                           Number(25, 100'000);
  const std::string metadata =
      Field(1, "name") + Field(3, "space") + Field(5, "uid") + Field(12, "annotation");
  const Result<Pod> pod =
      ParseV1Pod(Field(1, metadata) + Field(2, spec) + Field(3, Field(9, "Guaranteed")));
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  const Result<Pod> same = ParseKubernetesPod(
      R"({"metadata":{"name":"name","namespace":"space","uid":"uid"},"spec":{"initContainers":)"
      R"([{"name":"prepare","resources":{"requests":{"cpu":"1"}}},)"
      R"({"name":"side","restartPolicy":"Always"}],"containers":[{"name":"app","resources":)"
      R"({"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":"1"}}}],"priority":100000},)"
      R"("status":{"qosClass":"Guaranteed"}})");
  ASSERT_TRUE(same.ok()) << same.error().Text();
  EXPECT_EQ(*pod, *same);
  EXPECT_EQ(pod->priority, 100'000);
}

// Field numbers as in IsParsedByTheFieldNumbersOfKubernetes.
TEST(V1Pod, ExtendedResourcesOfDraDriversAreNotDevicePlugins) {
  const std::string resources =
      Field(1, Entry("example.com/gpu", "1")) + Field(1, Entry("example.com/nic", "1"));
  const std::string spec = Field(2, Field(1, "app") + Field(8, resources)) +
                           Field(2, Field(1, "beside") + Field(8, resources));
  const std::string mapping = Field(1, "app") + Field(2, "example.com/gpu") + Field(3, "request-0");
  const std::string status = Field(18, Field(1, mapping) + Field(2, "claim"));
  const Result<Pod> pod = ParseV1Pod(Field(1, Field(5, "uid")) + Field(2, spec) + Field(3, status));
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  const Resources& app = pod->containers.at(0).resources;
  EXPECT_FALSE(app.limits.contains("example.com/gpu"));
  EXPECT_FALSE(app.requests.contains("example.com/gpu"));
  EXPECT_TRUE(app.limits.contains("example.com/nic"));
  EXPECT_TRUE(pod->containers.at(1).resources.limits.contains("example.com/gpu"));
  EXPECT_TRUE(ShowsExtendedClaim(Field(1, Field(5, "uid")) + Field(3, status)));
  EXPECT_FALSE(ShowsExtendedClaim(Field(1, Field(5, "uid")) + Field(3, Field(9, "Guaranteed"))));
  EXPECT_FALSE(ShowsExtendedClaim("\xff\xff"));
}

// Field numbers as in IsParsedByTheFieldNumbersOfKubernetes.
TEST(V1Pod, EphemeralContainersAreNamedBesideThePod) {
  const std::string debugger = Field(1, Field(1, "debugger") + Field(2, "image")) + Field(2, "app");
  const std::string spec = Field(2, Field(1, "app")) + Field(34, debugger);
  const std::string bytes = Field(1, Field(5, "uid")) + Field(2, spec);
  EXPECT_EQ(EphemeralContainers(bytes), std::vector<std::string>{"debugger"});
  const Result<Pod> pod = ParseV1Pod(bytes);
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_EQ(pod->containers.size(), 1U);
  EXPECT_TRUE(EphemeralContainers("\xff\xff").empty());
}

// Field number 7 of the metadata.
TEST(V1Pod, HasALaterGenerationUnlessItIsTheFirst) {
  const auto of_generation = [](size_t generation) {
    return Field(1, Field(5, "uid") + Number(7, generation));
  };
  EXPECT_FALSE(HasLaterGeneration(of_generation(1)));
  EXPECT_TRUE(HasLaterGeneration(of_generation(2)));
  EXPECT_TRUE(HasLaterGeneration(Field(1, Field(5, "uid"))));
  EXPECT_TRUE(HasLaterGeneration("\xff\xff"));
}

// Field number 17 of the metadata, as an API server writes it.
std::string Managed(const std::string& manager, const std::string& operation,
                    const std::string& fields, const std::string& subresource = "") {
  return Field(17, Field(1, manager) + Field(2, operation) + Field(3, "v1") + Field(6, "FieldsV1") +
                       Field(7, Field(1, fields)) +
                       (subresource.empty() ? "" : Field(8, subresource)));
}

TEST(V1Pod, HasItsRequestsSinceItsCreationOnlyIfManagedFieldsShowThat) {
  constexpr char kStatus[] = R"({"f:status":{"f:conditions":{}}})";
  const auto fields = [](const std::string& list, const std::string& requests) {
    return R"({"f:spec":{")" + list + R"(":{"k:{\"name\":\"app\"}":{".":{},"f:resources":)" +
           requests + "}}}}";
  };
  const std::string both =
      fields("f:containers", R"({".":{},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}})");
  const std::string as_limits =
      fields("f:containers", R"({"f:limits":{"f:cpu":{}},"f:requests":{"f:memory":{}}})");
  const std::string cpu = fields("f:containers", R"({"f:requests":{"f:cpu":{}}})");
  const std::string memory = fields("f:containers", R"({"f:requests":{"f:memory":{}}})");
  const std::string of_init =
      fields("f:initContainers", R"({"f:requests":{"f:cpu":{},"f:memory":{}}})");
  const std::string kubelet = Managed("kubelet", "Update", kStatus, "status");
  struct Case {
    const char* name;
    std::string entries;
    bool is_since_creation;
  };
  const Case cases[] = {
      {"none", "", false},
      {"only the kubelet's", kubelet, false},
      {"created", Managed("kubectl-create", "Update", both) + kubelet, true},
      {"limits", Managed("kubectl-create", "Update", as_limits), true},
      {"resized", Managed("kubectl", "Update", both) + Managed("vpa", "Update", cpu, "resize"),
       false},
      {"added", Managed("kubectl", "Update", memory) + Managed("vpa", "Update", cpu, "resize"),
       false},
      {"nothing shows one request", Managed("kubectl", "Update", memory), false},
      {"applied, perhaps after a resize", Managed("kubectl", "Apply", both), false},
      {"merged", Managed("kubectl", "Update", both) + Managed("ancient-changes", "Update", cpu),
       false},
      {"of another list", Managed("kubectl", "Update", of_init), false},
      {"no JSON", Managed("kubectl", "Update", "{"), false},
  };
  const std::string requests = Field(2, Entry("cpu", "1")) + Field(2, Entry("memory", "1Mi")) +
                               Field(2, Entry("a.com/b", "1"));
  const std::string spec = Field(2, Field(2, Field(1, "app") + Field(8, requests)));
  for (const Case& c : cases) {
    const std::string metadata = Field(1, Field(5, "uid") + Number(7, 2) + c.entries);
    EXPECT_EQ(HasRequestsSinceCreation(metadata + spec), c.is_since_creation) << c.name;
  }
  EXPECT_FALSE(HasRequestsSinceCreation("\xff\xff"));
}

TEST(V1Pod, HasPodLevelResources) {
  const std::string spec =
      Field(2, Field(1, "app")) +
      Field(40, Field(1, Entry("cpu", "2")) + Field(1, Entry("memory", "64Mi")));
  const Result<Pod> pod = ParseV1Pod(Field(1, Field(5, "uid")) + Field(2, spec));
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_TRUE(HasPodLevelResources(*pod));
  EXPECT_EQ(QosOf(*pod), QosClass::kGuaranteed);
  EXPECT_EQ(ExclusiveCpus(*pod, pod->containers.at(0)), 0);
}

TEST(V1Pod, OtherBytesAreRefused) {
  k8s::Pod unnamed;
  unnamed.mutable_spec()->add_containers()->set_name("app");
  k8s::Pod empty;
  empty.mutable_metadata()->set_uid("uid");
  k8s::Pod absurd = empty;
  k8s::Container& app = *absurd.mutable_spec()->add_containers();
  app.set_name("app");
  (*app.mutable_resources()->mutable_limits())["cpu"].set_string("many");
  struct Case {
    std::string bytes;
    const char* says;
  };
  const Case cases[] = {
      {"\xff\xff", "protobuf"},
      {"", "neither uid nor name"},
      {unnamed.SerializeAsString(), "neither uid nor name"},
      {empty.SerializeAsString(), "no containers"},
      {absurd.SerializeAsString(), "spec.containers[0].resources.limits.cpu"},
  };
  for (const Case& c : cases) {
    const Result<Pod> pod = ParseV1Pod(c.bytes);
    ASSERT_FALSE(pod.ok()) << c.says;
    EXPECT_EQ(pod.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(pod.error().message.find(c.says), std::string::npos) << pod.error().message;
  }
}

}  // namespace
}  // namespace alignd::podsource
