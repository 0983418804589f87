// How often the runtime is asked for its container events.
#include "reconcile/runtime_events.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "edge/fake_tree.h"
#include "reconcile/container_registry.h"
#include "service/client.h"
#include "simulator/embedded_runtime.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class RuntimeEventsTest : public ::testing::Test {
 protected:
  ~RuntimeEventsTest() override {
    events_.reset();
    background_.Stop();
  }

  void Start(const grpc::Status& failure, const RuntimeEvents::Options& options) {
    const std::string endpoint = (tree_.root() / "runtime.sock").string();
    runtime_ = *simulator::EmbeddedRuntime::Start(endpoint, {});
    runtime_->SetFailure("GetContainerEvents", failure);
    events_.emplace(
        background_, *service::Client::Dial(endpoint), registry_, [] {}, options);
    events_->Start();
  }
  size_t Asked() const { return runtime_->Requests("GetContainerEvents").size(); }
  bool IsAsked(size_t times) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (Asked() < times) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  const testing::FakeTree tree_;
  std::unique_ptr<simulator::EmbeddedRuntime> runtime_;
  ContainerRegistry registry_;
  TaskQueue background_{"background"};
  std::optional<RuntimeEvents> events_;
};

// Such as by a client of the runtime's own socket that takes the stream over.
TEST_F(RuntimeEventsTest, StreamThatEndsIsOpenedAgainLessAndLessOften) {
  const auto begin = std::chrono::steady_clock::now();
  Start({grpc::StatusCode::ABORTED, "another reader"},
        {.retry = milliseconds(10), .last_retry = hours(1)});
  ASSERT_TRUE(IsAsked(6));
  // The pauses are 10, 20, 40, 80 and 160 ms.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(310));
}

TEST_F(RuntimeEventsTest, RuntimeThatServesNoneIsAskedOnlyAfterItWasLost) {
  Start({grpc::StatusCode::UNIMPLEMENTED, "unknown method"},
        {.retry = milliseconds(1), .last_retry = milliseconds(1)});
  constexpr size_t kLosses = 30;
  for (size_t asked = 1; asked <= kLosses; ++asked) {
    ASSERT_TRUE(IsAsked(asked));
    events_->RuntimeLost();
  }
  ASSERT_TRUE(IsAsked(kLosses + 1));
  events_->Stop();
  EXPECT_EQ(Asked(), kLosses + 1);
}

}  // namespace
}  // namespace alignd::reconcile
