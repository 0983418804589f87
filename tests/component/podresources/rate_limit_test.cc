// The pod resources service over its socket, called more often than the kubelet allows.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "edge/allocation_node.h"
#include "edge/loop_thread.h"
#include "edge/raw_call.h"
#include "podresources/pod_resources_server.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "reconcile/container_registry.h"
#include "simulator/grpc_socket.h"

namespace alignd::podresources {
namespace {

using Clock = std::chrono::steady_clock;

class PodResourcesLimit : public ::testing::Test {
 protected:
  PodResourcesLimit() {
    world_.Up();
    registry_.AddSandbox("sandbox", "uid", "default/pod");
    registry_.AddContainer("container", {"uid", "app"}, {});
    auto server =
        PodResourcesServer::Start(services_.loop(), Socket(), world_.node, *world_.manager,
                                  registry_, [] { return dra::ContainerClaims({}, nullptr); });
    EXPECT_TRUE(server.ok()) << server.error().Text();
    server_ = *std::move(server);
    stub_ = ::v1::PodResourcesLister::NewStub(*simulator::Dial(Socket()));
  }

  std::string Socket() const { return world_.tree.root() / "pod-resources.sock"; }

  // One of the three calls.
  grpc::Status Call(int which) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (which % 3 == 0) {
      ::v1::ListPodResourcesResponse response;
      return stub_->List(&context, {}, &response);
    }
    if (which % 3 == 1) {
      ::v1::GetPodResourcesRequest request;
      request.set_pod_name("pod");
      request.set_pod_namespace("default");
      ::v1::GetPodResourcesResponse response;
      return stub_->Get(&context, request, &response);
    }
    ::v1::AllocatableResourcesResponse response;
    return stub_->GetAllocatableResources(&context, {}, &response);
  }

  testing::AllocationNode world_;
  reconcile::ContainerRegistry registry_;
  const testing::LoopThread services_;
  std::unique_ptr<PodResourcesServer> server_;
  std::unique_ptr<::v1::PodResourcesLister::Stub> stub_;
};

// The kubelet's limits: 100 per second, 10 at once, for all callers and all three calls together.
TEST_F(PodResourcesLimit, HoldsForAllCallersAndCallsTogether) {
  constexpr int kCallers = 4;
  constexpr int kCalls = 400;  // each
  std::atomic<int> allowed = 0;
  const auto began = Clock::now();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int call = 0; call < kCalls; ++call) {
        const int which = caller + call;
        const grpc::Status status = Call(which);
        if (status.ok()) {
          ++allowed;
          continue;
        }
        EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
        EXPECT_EQ(status.error_message(), "rejected by rate limit");
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const std::chrono::duration<double> took = Clock::now() - began;
  EXPECT_GE(allowed, 10);
  EXPECT_LE(allowed, 10 + 100 * took.count() + 1);
  EXPECT_LT(allowed, kCallers * kCalls) << "not called often enough: " << took.count() << " s";
}

TEST_F(PodResourcesLimit, CallersWithinTheLimitAreServed) {
  while (Call(0).ok()) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(Call(call).ok()) << call;
}

// Without a limit, one connection opened 100,000 calls: 2.5 GB, and all threads of the machine when
// it closed.
TEST_F(PodResourcesLimit, HoldsForTheOpenCallsOfAConnection) {
  constexpr int kMaxCalls = 100;
  const auto channel = *simulator::Dial(Socket());
  const auto wait = [](grpc::ClientContext& context) { context.set_wait_for_ready(true); };
  std::vector<std::unique_ptr<testing::RawCall>> open;  // none of them sends its request
  for (int i = 0; i < kMaxCalls; ++i) {
    open.push_back(
        std::make_unique<testing::RawCall>(channel, "/v1.PodResourcesLister/List", wait));
  }
  const auto one_more = [&](std::chrono::milliseconds limit) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    ::v1::ListPodResourcesResponse response;
    return ::v1::PodResourcesLister::NewStub(channel)->List(&context, {}, &response);
  };
  EXPECT_EQ(one_more(std::chrono::milliseconds(300)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Call(0).ok()) << "another connection waits for this one";
  for (const auto& call : open) call->context().TryCancel();
  EXPECT_TRUE(one_more(std::chrono::seconds(30)).ok());
}

// What has arrived of a request is held: 1.5 GB by one connection with requests of 15 MiB.
TEST_F(PodResourcesLimit, HoldsForTheLengthOfRequests) {
  ::v1::GetPodResourcesRequest request;
  request.set_pod_name(std::string(100 << 10, 'a'));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  ::v1::GetPodResourcesResponse response;
  EXPECT_EQ(stub_->Get(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Call(0).ok());
}

}  // namespace
}  // namespace alignd::podresources
