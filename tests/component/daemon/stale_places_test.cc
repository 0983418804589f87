// Where running containers are when alignd starts, and which of them waits until another one has
// left its CPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "stale_state_fixture.h"

namespace alignd::daemon {
namespace {

class StalePlaces : public StaleState {
 protected:
  // In the end, both containers are on these CPUs.
  void ExpectOn(const Running& one, const std::string& cpus, const Running& other,
                const std::string& cpus_of_other) {
    EXPECT_TRUE(Eventually([&] {
      return CpusOf(one.container) == cpus && CpusOf(other.container) == cpus_of_other;
    })) << CpusOf(one.container)
        << ", " << CpusOf(other.container);
  }
};

using std::chrono::milliseconds;

// Nothing proves that the file is not true, as the other container has no mark. It leaves the CPUs
// before `a` comes onto them, and does not come onto those of `a` before that has left.
TEST_F(StalePlaces, NoContainerComesOntoCpusOnWhichAnotherOneStillIs) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  StopDaemon();
  MoveAtRuntime(a.container, {4, 5, 6});
  const Running b = RunAtRuntime("b", {1, 2, 3}, /*is_marked=*/false);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(b.container) == "0,4-27"; }));
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "4-6", "1-3"}));
  EXPECT_EQ(PlacesOf(b.container), (Places{"1-3", "0,7-27", "0,4-27"}));
}

// Each is assigned what the other one is on. As they are on other numbers of CPUs than they are
// assigned, nothing is refuted.
TEST_F(StalePlaces, ContainersOnTheCpusOfEachOtherChangePlaces) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  MoveAtRuntime(a.container, {8, 9, 10, 11});
  MoveAtRuntime(b.container, {1, 2, 3});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  StartDaemon();
  ExpectOn(a, "1-3", b, "4-7");
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "8-11", "4-7", "0,8-27", "1-3"}));
  EXPECT_EQ(PlacesOf(b.container), (Places{"4-7", "1-3", "4-7"}));
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_EQ(ConditionsNow(ConditionType::kCpusetUpdateFailed).size(), 0U);
}

// `b` cannot leave the CPUs of `a`, so `a` stays in the shared pool, and new pods get CPUs of it.
TEST_F(StalePlaces, AContainerThatWaitsInThePoolLeavesTheCpusOfNewPods) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  MoveAtRuntime(a.container, {8, 9, 10, 11});
  MoveAtRuntime(b.container, {1, 2, 3});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::INTERNAL, "broken"},
                       b.container);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(a.container) == "0,8-27"; })) << CpusOf(a.container);
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_EQ(CpusOf(a.container), "0,10-27");
  EXPECT_EQ(CpusOf(b.container), "1-3");
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  ExpectOn(a, "1-3", b, "4-7");
}

// The only CPU of the shared pool is in use as well. A condition has said what waits for what
// before.
TEST_F(StalePlaces, WithoutOtherCpusOneOfTheContainersGoesFirst) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  const Running rest = RunOne(PodConfig("rest"), Pinned(20));
  StopDaemon();
  // Two of them are on the same CPUs for a moment.
  watch_.ReadCpus([](const std::string& cgroup) {
    return cgroup.find("poda") != std::string::npos   ? "1"
           : cgroup.find("podb") != std::string::npos ? "2"
                                                      : "3";
  });
  MoveAtRuntime(rest.container, {0});
  MoveAtRuntime(a.container, {8, 9, 10, 11});
  MoveAtRuntime(b.container, {1, 2, 3});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::INTERNAL, "broken"},
                       rest.container);
  StartDaemon();
  ExpectOn(a, "1-3", b, "4-7");
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "8-11", "4-7", "1-3"}));
}

// `b` gets more CPUs; then, past alignd, it loses them, and `a` comes onto one of them. Where `b`
// is now, only the runtime's record says, which is no proof that it has left the others.
TEST_F(StalePlaces, AGrownContainerWaitsOnItsOriginalCpus) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {1, 2, 3}}, {"b", {4, 5, 6, 7, 8, 9}}});
  WriteOriginals("b", {4, 5, 6, 7});
  MoveAtRuntime(a.container, {8, 9, 10});
  StartDaemon();
  ExpectOn(a, "1-3", b, "4-9");
  EXPECT_EQ(PlacesOf(b.container), (Places{"4-7", "4-9"}));
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "10-11");
  EXPECT_EQ(ConditionsNow(ConditionType::kCpusetUpdateFailed).size(), 0U);
}

// Each is assigned what the other one is on, and the runtime does not say where `a` is. So nothing
// is refuted; `a` may have been on its CPUs only if the file is true.
TEST_F(StalePlaces, AContainerOfUnknownPlaceWaitsForOneThatIsKnownToBeOnItsCpus) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(3));
  StopDaemon();
  WriteState({{"a", {4, 5, 6}}, {"b", {1, 2, 3}}});
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "broken"}, a.container);
  StartDaemon();
  ExpectOn(a, "4-6", b, "1-3");
  EXPECT_EQ(PlacesOf(a.container), (Places{"1-3", "4-6"}));
  EXPECT_EQ(PlacesOf(b.container), (Places{"4-6", "0,7-27", "1-3"}));
  EXPECT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 0U);
}

// The other one cannot leave. The wait is reported, and names it.
TEST_F(StalePlaces, AWaitThatLastsIsShown) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  MoveAtRuntime(b.container, {8, 9, 10});
  MoveAtRuntime(a.container, {4, 5, 6, 7});
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::INTERNAL, "broken"},
                       a.container);
  StartDaemon();
  const std::string message =
      "not moved to CPUs 4-7: it waits until other containers have left its CPUs: container app "
      "of pod default/pod-a (on CPUs 1-7)";
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::any_of(
        ConditionsNow(ConditionType::kCpusetUpdateFailed),
        [&](const Condition& condition) { return condition.message() == message; });
  }));
  EXPECT_EQ(CpusOf(b.container), "8-10");
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  ExpectOn(a, "1-3", b, "4-7");
  EXPECT_TRUE(
      Eventually([&] { return ConditionsNow(ConditionType::kCpusetUpdateFailed).empty(); }));
}

// `c` is on a CPU on which `a` is as well, and is assigned another one of those; `a` takes its
// time.
TEST_F(StalePlaces, AContainerThatSharesACpuWaitsAsWell) {
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  const Running c = RunOne(PodConfig("c"), Pinned(1));
  ASSERT_EQ(CpusOf(c.container), "8");
  StopDaemon();
  MoveAtRuntime(c.container, {10});
  watch_.Forget();  // what happens past alignd: `c` is not seen again until its update
  MoveAtRuntime(a.container, {8, 9, 10});
  runtime_->SetDelay("UpdateContainerResources", milliseconds(200), a.container);
  StartDaemon();
  ExpectOn(a, "1-3", c, "8");
  EXPECT_EQ(CpusOf(b.container), "4-7");
}

// The runtime's record is right; another program has written to the cgroup.
TEST_F(StalePlaces, ACgroupThatAnotherProgramHasMovedIsWaitedFor) {
  CreateCgroups();
  Start();
  const Running a = RunOne(PodConfig("a"), Pinned(3));
  const Running b = RunOne(PodConfig("b"), Pinned(4));
  StopDaemon();
  WriteState({{"a", {1, 2, 3}}, {"b", {4, 5, 6, 7, 8, 9}}});
  WriteOriginals("b", {4, 5, 6, 7});
  cgroups_->SetCpus(runtime_->FindContainer(a.container)->cgroup, "8-9");
  runtime_->SetDelay("UpdateContainerResources", milliseconds(200), a.container);
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return CpusOf(b.container) == "4-9"; })) << CpusOf(b.container);
  EXPECT_EQ(cgroups_->CpusOf(runtime_->FindContainer(a.container)->cgroup), "1-3");
}

}  // namespace
}  // namespace alignd::daemon
