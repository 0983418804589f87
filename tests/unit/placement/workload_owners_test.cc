// Objects of which one has made another one, as `kubectl get all -o json` prints them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "alignd/placement/manifest.h"

namespace alignd::placement {
namespace {

using OwnedJson = nlohmann::json;

OwnedJson OwnedObject(const std::string& kind, const std::string& name,
                      const std::optional<OwnedJson>& owner = std::nullopt) {
  OwnedJson object = {{"apiVersion", kind == "Pod" ? "v1" : "apps/v1"},
                      {"kind", kind},
                      {"metadata", {{"name", name}, {"namespace", "shop"}, {"uid", "u-" + name}}}};
  const OwnedJson spec = {{"containers", {{{"name", "app"}}}}};
  if (kind == "Pod") {
    object["spec"] = spec;
    object["spec"]["nodeName"] = "n";
  } else {
    object["spec"] = {{"replicas", 2}, {"template", {{"spec", spec}}}};
  }
  // With braces, clang makes a copy of the owner, and g++ an array.
  if (owner) object["metadata"]["ownerReferences"] = OwnedJson::array({*owner});
  return object;
}

OwnedJson OwnedBy(const std::string& kind, const std::string& name) {
  return {{"apiVersion", "apps/v1"},
          {"kind", kind},
          {"name", name},
          {"uid", "u-" + name},
          {"controller", true}};
}

// A Deployment of two replicas, its ReplicaSet and one of its pods.
std::vector<OwnedJson> ThreeLevels() {
  return {OwnedObject("Pod", "web-1-a", OwnedBy("ReplicaSet", "web-1")),
          OwnedObject("ReplicaSet", "web-1", OwnedBy("Deployment", "web")),
          OwnedObject("Deployment", "web")};
}

Manifests ManifestsOfOwned(const std::vector<OwnedJson>& objects) {
  Manifests manifests;
  for (const OwnedJson& object : objects) {
    const Result<Done> read = ReadManifest(object.dump(), "all.json", manifests);
    EXPECT_TRUE(read.ok()) << read.error().Text();
  }
  return manifests;
}

// How many pods are planned of the objects.
size_t PlannedOfOwned(const std::vector<OwnedJson>& objects) {
  Manifests manifests = ManifestsOfOwned(objects);
  LeaveOutOwned(manifests);
  const auto pods = ExpandPods(manifests, std::nullopt);
  EXPECT_TRUE(pods.ok()) << pods.error().Text();
  return pods.ok() ? pods->size() : 0;
}

TEST(WorkloadOwners, PodsAreThoseOfTheTopmostController) {
  Manifests manifests = ManifestsOfOwned(ThreeLevels());
  LeaveOutOwned(manifests);
  EXPECT_EQ(manifests.skipped,
            (std::vector<std::string>{"Pod shop/web-1-a is of Deployment shop/web",
                                      "ReplicaSet shop/web-1 is of Deployment shop/web"}));
  ASSERT_EQ(manifests.workloads.size(), 1U);
  EXPECT_EQ(manifests.workloads[0].kind, "Deployment");
  EXPECT_EQ(PlannedOfOwned(ThreeLevels()), 2U);
  EXPECT_EQ(PlannedOfOwned({ThreeLevels()[0], ThreeLevels()[1]}), 2U);
  EXPECT_EQ(PlannedOfOwned({ThreeLevels()[0]}), 1U);
}

TEST(WorkloadOwners, OtherOwnersDoNotCount) {
  const OwnedJson set = ThreeLevels()[1];
  OwnedJson pod = ThreeLevels()[0];
  OwnedJson& owner = pod["metadata"]["ownerReferences"][0];
  owner["controller"] = false;
  EXPECT_EQ(PlannedOfOwned({pod, set}), 3U);
  owner.erase("controller");
  EXPECT_EQ(PlannedOfOwned({pod, set}), 3U);
  owner["controller"] = true;
  EXPECT_EQ(PlannedOfOwned({pod, set}), 2U);
  // An earlier object of its name.
  owner["uid"] = "other";
  EXPECT_EQ(PlannedOfOwned({pod, set}), 3U);
  owner["uid"] = "u-web-1";
  // A kind of that name of another group.
  owner["apiVersion"] = "example.com/v1";
  EXPECT_EQ(PlannedOfOwned({pod, set}), 3U);
  owner["apiVersion"] = "apps/v1";
  pod["metadata"]["namespace"] = "bank";
  EXPECT_EQ(PlannedOfOwned({pod, set}), 3U);
  // Objects that name each other: each one is kept.
  EXPECT_EQ(PlannedOfOwned({OwnedObject("ReplicaSet", "a", OwnedBy("ReplicaSet", "b")),
                            OwnedObject("ReplicaSet", "b", OwnedBy("ReplicaSet", "a"))}),
            4U);
}

// What runs are the pods, with their UIDs, and not what a controller would make.
TEST(WorkloadOwners, OfPodsThatRunThePodsStay) {
  Manifests manifests = ManifestsOfOwned(ThreeLevels());
  LeaveOutControllers(manifests);
  ASSERT_EQ(manifests.workloads.size(), 1U);
  EXPECT_EQ(manifests.workloads[0].pod.pod.uid, "u-web-1-a");
  EXPECT_EQ(manifests.skipped,
            (std::vector<std::string>{"ReplicaSet shop/web-1 has pods that are named, too",
                                      "Deployment shop/web has pods that are named, too"}));
  Manifests alone = ManifestsOfOwned({OwnedObject("Deployment", "web")});
  LeaveOutControllers(alone);
  EXPECT_EQ(alone.workloads.size(), 1U);
}

// What is planned of a CronJob is one more Job, beside those that have not ended.
TEST(WorkloadOwners, JobsCountBesideTheirCronJob) {
  const auto of_batch = [](const std::string& kind, const std::string& name) {
    OwnedJson object = OwnedObject(kind, name);
    object["apiVersion"] = "batch/v1";
    object["spec"].erase("replicas");
    object["spec"]["template"]["spec"]["restartPolicy"] = "Never";
    return object;
  };
  const auto owned_by = [](const std::string& kind, const std::string& name) {
    OwnedJson owner = OwnedBy(kind, name);
    owner["apiVersion"] = "batch/v1";
    return OwnedJson::array({owner});
  };
  OwnedJson cron = of_batch("CronJob", "backup");
  cron["spec"] = {{"schedule", "0 * * * *"}, {"jobTemplate", {{"spec", cron["spec"]}}}};
  OwnedJson first = of_batch("Job", "backup-1");
  first["metadata"]["ownerReferences"] = owned_by("CronJob", "backup");
  first["spec"]["parallelism"] = 3;
  OwnedJson second = of_batch("Job", "backup-2");
  second["metadata"]["ownerReferences"] = owned_by("CronJob", "backup");
  OwnedJson pod = OwnedObject("Pod", "backup-2-a");
  pod["metadata"]["ownerReferences"] = owned_by("Job", "backup-2");
  EXPECT_EQ(PlannedOfOwned({cron, first, second, pod}), 5U);
  EXPECT_EQ(PlannedOfOwned({cron, pod}), 2U);
  // Of what runs, a CronJob has no more than its Jobs.
  Manifests running = ManifestsOfOwned({cron, second, pod});
  LeaveOutControllers(running);
  ASSERT_EQ(running.workloads.size(), 1U);
  EXPECT_EQ(running.workloads[0].kind, "Pod");
}

TEST(WorkloadOwners, ANewPausedDeploymentHasNoPods) {
  OwnedJson paused = OwnedObject("Deployment", "web");
  paused["spec"]["paused"] = true;
  EXPECT_EQ(PlannedOfOwned({paused}), 2U) << "it can have been paused later";
  paused["status"] = OwnedJson::object();
  EXPECT_EQ(PlannedOfOwned({paused}), 0U);
  EXPECT_EQ(ManifestsOfOwned({paused}).skipped,
            std::vector<std::string>{"Deployment shop/web is paused: it has no pods"});
  paused["status"]["replicas"] = 2;
  EXPECT_EQ(PlannedOfOwned({paused}), 2U) << "it was paused later";
  paused["spec"]["paused"] = false;
  paused["status"]["replicas"] = 0;
  EXPECT_EQ(PlannedOfOwned({paused}), 2U);
}

}  // namespace
}  // namespace alignd::placement
