// Containers that are created at the runtime's own socket are found by the runtime's events. The
// reconcile period is an hour.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon_fixture.h"
#include "edge/raw_call.h"
#include "edge/status_conditions.h"

namespace alignd::daemon {
namespace {

constexpr char kEvents[] = "/runtime.v1.RuntimeService/GetContainerEvents";

class DaemonEvents : public DaemonTest {
 protected:
  void StartRarelyListing() {
    std::string config = StaticConfig();
    const std::string period = "cpuManagerReconcilePeriod: 2s";
    config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 1h");
    StartDaemon(config);
    ASSERT_TRUE(Eventually([&] { return runtime_->Requests("ListContainers").size() >= 1; }));
  }
  // alignd's own stream is open. The listing after that has ended.
  void AwaitStream(size_t streams = 1) const {
    ASSERT_TRUE(Eventually([&] {
      return runtime_->Requests("GetContainerEvents").size() >= streams &&
             runtime_->Requests("ListContainers").size() >= streams + 1;
    }));
  }
  // A pod with one container, past alignd.
  Running RunDirectly(const std::string& uid) {
    const auto through_alignd = std::exchange(client_, *simulator::Dial(RuntimeEndpoint()));
    const Running running = RunOne(BurstablePod(uid), Shared());
    client_ = through_alignd;
    return running;
  }
  // A client reads all events from here on.
  static void Open(testing::RawCall& events) {
    events.Write(v1::GetEventsRequest().SerializeAsString());
    events.WritesDone();
    events.WaitForInitialMetadata();
  }
  std::vector<control::v1::Condition> Unmanaged() const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                 reconcile::ConditionType::kUnmanagedContainer);
  }
  size_t Listings() const { return runtime_->Requests("ListContainers").size(); }
};

TEST_F(DaemonEvents, ContainerCreatedAtTheRuntimeIsFound) {
  StartRuntime();
  StartRarelyListing();
  AwaitStream();
  const Running direct = RunDirectly("direct");
  ASSERT_TRUE(Eventually([&] { return Unmanaged().size() == 1; }));
  EXPECT_EQ(Unmanaged()[0].pod(), "default/pod-direct");
  // It leaves CPUs that become exclusive.
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(CpusOf(direct.container), "0,4-27");
}

TEST_F(DaemonEvents, RuntimeThatIsRestartedIsFollowedAgain) {
  StartRuntime();
  StartRarelyListing();
  AwaitStream();
  runtime_.reset();
  watch_.Forget();
  StartRuntime();
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("GetContainerEvents").size() == 1; }));
  RunDirectly("direct");
  EXPECT_TRUE(Eventually([&] { return Unmanaged().size() == 1; }));
}

// Whatever the number of events, listings because of them have a pause between them.
TEST_F(DaemonEvents, FloodOfEventsCausesFewListings) {
  StartRuntime();
  StartRarelyListing();
  AwaitStream();
  const auto begin = std::chrono::steady_clock::now();
  const size_t before = Listings();
  const auto through_alignd = std::exchange(client_, *simulator::Dial(RuntimeEndpoint()));
  for (int i = 0; i < 100; ++i) RunOne(BurstablePod("pod" + std::to_string(i)), Shared());
  client_ = through_alignd;
  EXPECT_TRUE(Eventually([&] { return Unmanaged().size() == 100; }));
  const auto pauses = (std::chrono::steady_clock::now() - begin) / milliseconds(500);
  EXPECT_LE(Listings() - before, static_cast<size_t>(pauses) + 2);
}

TEST_F(DaemonEvents, RuntimeWithoutEventsIsOnlyListed) {
  StartRuntime();
  runtime_->SetFailure("GetContainerEvents",
                       {grpc::StatusCode::UNIMPLEMENTED, "GetContainerEvents not implemented"});
  StartDaemon();  // lists every 2 s
  // The first listing has ended: a container that is in it counts as one from before the start.
  ASSERT_TRUE(Eventually([&] { return Listings() >= 2; }));
  ASSERT_FALSE(runtime_->Requests("GetContainerEvents").empty());
  RunDirectly("direct");
  EXPECT_TRUE(Eventually([&] { return Unmanaged().size() == 1; }));
  EXPECT_EQ(runtime_->Requests("GetContainerEvents").size(), 1U);
}

// containerd 1.7 gives each event to one reader only.
TEST_F(DaemonEvents, ClientThatReadsEventsGetsThemAll) {
  StartRuntime();
  StartRarelyListing();
  AwaitStream();
  testing::RawCall events(client_, kEvents);
  Open(events);
  const size_t before = Listings();
  const Running direct = RunDirectly("direct");
  for (const auto type : {v1::CONTAINER_CREATED_EVENT, v1::CONTAINER_STARTED_EVENT}) {
    const std::optional<std::string> message = events.Read();
    v1::ContainerEventResponse event;
    ASSERT_TRUE(message.has_value() && event.ParseFromString(*message));
    EXPECT_EQ(event.container_event_type(), type);
    EXPECT_EQ(event.container_id(), direct.container);
  }
  events.context().TryCancel();
  (void)events.Finish();
  // alignd does not read them any more: a call that waits for a listing is the first to have one.
  EXPECT_EQ(Listings(), before);
}

TEST_F(DaemonEvents, AreReadAgainOnceTheClientHasLeft) {
  StartRuntime();
  StartRarelyListing();
  AwaitStream();
  for (size_t streams = 1; streams < 5; streams += 2) {
    testing::RawCall events(client_, kEvents);
    Open(events);
    events.context().TryCancel();
    (void)events.Finish();
    // The client's, and the next one of alignd.
    ASSERT_TRUE(
        Eventually([&] { return runtime_->Requests("GetContainerEvents").size() >= streams + 2; }));
  }
  RunDirectly("direct");
  EXPECT_TRUE(Eventually([&] { return Unmanaged().size() == 1; }));
}

// It may be another one after its restart.
TEST_F(DaemonEvents, RuntimeWithoutEventsIsAskedForThemAfterItsRestart) {
  StartRuntime();
  runtime_->SetFailure("GetContainerEvents", {grpc::StatusCode::UNIMPLEMENTED, "none"});
  StartRarelyListing();
  ASSERT_TRUE(Eventually([&] { return !runtime_->Requests("GetContainerEvents").empty(); }));
  // A client's call has opened the connection whose end shows that.
  EXPECT_TRUE(Call<v1::VersionResponse>("Version", v1::VersionRequest()).status.ok());
  runtime_.reset();
  watch_.Forget();
  StartRuntime();
  ASSERT_TRUE(Eventually([&] { return !runtime_->Requests("GetContainerEvents").empty(); }));
  RunDirectly("direct");
  EXPECT_TRUE(Eventually([&] { return Unmanaged().size() == 1; }));
}

}  // namespace
}  // namespace alignd::daemon
