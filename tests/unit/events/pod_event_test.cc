#include "events/pod_event.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "host/node_name.h"

namespace alignd::events {
namespace {

using control::v1::GetStatusResponse;
using nlohmann::json;

constexpr int64_t kNoon = 1'795'953'600'123;  // 2026-11-29T12:00:00.123Z

control::v1::PendingPod& AddPending(GetStatusResponse& report, const std::string& state) {
  control::v1::PendingPod& pod = *report.add_pending();
  pod.set_pod_uid("u1");
  pod.set_pod("shop/db-0");
  pod.set_container("app");
  pod.set_state(state);
  pod.set_first_unix_ms(kNoon);
  pod.set_last_unix_ms(kNoon + 5000);
  pod.set_times(3);
  return pod;
}

TEST(PodEvent, APodInTheQueueIsNoWarning) {
  GetStatusResponse report;
  control::v1::PendingPod& pod = AddPending(report, "waiting");
  pod.set_reason("TopologyAffinityError");
  pod.set_message("no locality");
  pod.set_position(3);
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 1U);
  const json object = json::parse(events[0].Object("node-1"));
  EXPECT_EQ(object["type"], "Normal");
  EXPECT_EQ(object["reason"], "WaitingForResources");
  EXPECT_EQ(object["message"],
            "container app: waits in alignd's queue: TopologyAffinityError: no locality");
}

TEST(PodEvent, RefusedPodIsAWarningWithTheKubeletsReason) {
  GetStatusResponse report;
  control::v1::PendingPod& pod = AddPending(report, "refused");
  pod.set_reason("TopologyAffinityError");
  pod.set_message("Resources cannot be allocated with Topology locality");
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 1U);
  const json object = json::parse(events[0].Object("node-1"));
  const json expected = {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", {{"name", events[0].ObjectName()}, {"namespace", "shop"}}},
      {"involvedObject",
       {{"apiVersion", "v1"},
        {"kind", "Pod"},
        {"namespace", "shop"},
        {"name", "db-0"},
        {"uid", "u1"}}},
      {"type", "Warning"},
      {"reason", "TopologyAffinityError"},
      {"message", "container app: Resources cannot be allocated with Topology locality"},
      {"source", {{"component", "alignd"}, {"host", "node-1"}}},
      {"reportingComponent", "alignd"},
      {"reportingInstance", "node-1"},
      {"firstTimestamp", "2026-11-29T12:00:00Z"},
      {"lastTimestamp", "2026-11-29T12:00:05Z"},
      {"count", 3}};
  EXPECT_EQ(object, expected) << object.dump(1);
  const json change = json::parse(events[0].Repetition(8));
  EXPECT_EQ(change, (json{{"message", expected["message"]},
                          {"lastTimestamp", "2026-11-29T12:00:05Z"},
                          {"count", 8}}));
}

TEST(PodEvent, WaitIsNoWarningAndFailureHasAReason) {
  GetStatusResponse report;
  AddPending(report, "waiting");
  AddPending(report, "failed").set_first_unix_ms(kNoon + 1);
  report.mutable_pending(1)->set_message("write state: no space left on device");
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_FALSE(events[0].is_warning);
  EXPECT_EQ(events[0].reason, "WaitingForDevicePlugin");
  EXPECT_EQ(events[0].last_unix_ms, kNoon);  // a wait is one occurrence
  EXPECT_TRUE(events[1].is_warning);
  EXPECT_EQ(events[1].reason, "AllocationFailed");
}

TEST(PodEvent, ConditionsOfPodsOnly) {
  GetStatusResponse report;
  report.add_conditions()->set_type("RuntimeUnavailable");
  control::v1::Condition& repaired = *report.add_conditions();
  repaired.set_type("CpusetRepaired");
  repaired.set_pod_uid("u1");
  repaired.set_pod("shop/db-0");
  repaired.set_message("cpuset.cpus was 0-7");
  repaired.set_remedy("stop the program");
  control::v1::Condition& nameless = *report.add_conditions();
  nameless.set_type("CpusetRepaired");
  nameless.set_pod_uid("u2");
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].reason, "CpusetRepaired");
  EXPECT_EQ(events[0].message, "cpuset.cpus was 0-7. What to do: stop the program");
  EXPECT_EQ(json::parse(events[0].Object("n"))["message"], events[0].message);
}

// A container that was created again has a condition of its own; both are the same Event.
TEST(PodEvent, OneOfSeveralWithTheSameName) {
  GetStatusResponse report;
  for (const int64_t last : {2, 3, 1}) {
    control::v1::Condition& repaired = *report.add_conditions();
    repaired.set_type("CpusetRepaired");
    repaired.set_pod_uid("u1");
    repaired.set_pod("shop/db-0");
    repaired.set_container("app");
    repaired.set_message("cpuset.cpus was 0-" + std::to_string(last));
    repaired.set_last_unix_ms(last);
  }
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].message, "cpuset.cpus was 0-3");
}

TEST(PodEvent, AssignmentsOfContainers) {
  GetStatusResponse report;
  report.set_time_unix_ms(kNoon);
  control::v1::ContainerAssignment& assigned = *report.add_containers();
  assigned.set_pod_uid("u1");
  assigned.set_pod("shop/db-0");
  assigned.set_container("app");
  assigned.set_exclusive_cpus("2-3,8");
  assigned.add_memory_nodes(0);
  control::v1::AssignedDevices& gpus = *assigned.add_devices();
  gpus.set_resource("nvidia.com/gpu");
  gpus.add_devices()->set_id("gpu0");
  gpus.add_devices()->set_id("gpu1");
  const auto events = EventsOf(report);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_FALSE(events[0].is_warning);
  EXPECT_EQ(events[0].reason, "Assigned");
  EXPECT_EQ(events[0].message,
            "exclusive CPUs 2-3,8; memory of NUMA node 0; nvidia.com/gpu gpu0,gpu1");
}

TEST(PodEvent, NamesThatAreNoApiObjectsAreLeftOut) {
  for (const char* const pod : {"no-slash", "/name", "ns/", "ns/../x", "ns/a b", "ns/Name", "n?s/a",
                                "ns/-a", "ns/a.", "ns/\xff"}) {
    GetStatusResponse report;
    AddPending(report, "refused").set_pod(pod);
    EXPECT_TRUE(EventsOf(report).empty()) << pod;
  }
  EXPECT_FALSE(host::IsObjectName(std::string(254, 'a')));
  EXPECT_TRUE(host::IsObjectName(std::string(253, 'a')));
}

TEST(PodEvent, ObjectNameIsOfThePodTheContainerAndTheReason) {
  PodEvent event{.pod_namespace = "ns", .pod_name = "a", .pod_uid = "u", .reason = "R"};
  const std::string name = event.ObjectName();
  EXPECT_TRUE(name.starts_with("a.alignd-")) << name;
  event.message = "another";
  event.times = 7;
  EXPECT_EQ(event.ObjectName(), name);
  event.container = "app";
  EXPECT_NE(event.ObjectName(), name);
  event.container = "";
  event.pod_uid = "v";
  EXPECT_NE(event.ObjectName(), name);
  event.pod_name = std::string(251, 'a') + ".b";
  EXPECT_TRUE(host::IsObjectName(event.ObjectName())) << event.ObjectName();
  EXPECT_EQ(event.ObjectName().size(), 253U);
}

TEST(PodEvent, MessageIsCutBetweenCharactersAndStaysUtf8) {
  PodEvent event{.pod_namespace = "ns", .pod_name = "a", .pod_uid = "u", .reason = "R"};
  for (int i = 0; i < 600; ++i) event.message += "\u00e9";
  const std::string cut = json::parse(event.Object("n"))["message"];
  EXPECT_LE(cut.size(), 1024U);
  EXPECT_GE(cut.size(), 1022U);
  EXPECT_TRUE(cut.ends_with("\u00e9..."));
  event.message = "bad \xff byte";
  EXPECT_EQ(json::parse(event.Object("n"))["message"], "bad \uFFFD byte");
}

}  // namespace
}  // namespace alignd::events
