// An allocation manager at which pods wait for resources of other pods.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::allocation {

// 15 CPUs can be assigned.
class AllocationQueueTest : public ::testing::Test {
 protected:
  explicit AllocationQueueTest(const WaitLimits& limits = {}) { Up(limits); }
  void Up(const WaitLimits& limits) {
    world_.Down();
    world_.waiting.emplace(limits);
    world_.Up();
  }

  // As for CreateContainer.
  std::future<Outcome> Create(const Pod& pod, std::chrono::milliseconds may_wait = kLong,
                              const std::string& wanted = "app") {
    auto answer = std::make_shared<std::promise<Outcome>>();
    world_.manager->Admit({.pod = pod,
                           .wanted = wanted,
                           .describe =
                               [](const std::string& uid) {
                                 return PodStanding{"default/" + uid, false};
                               },
                           .wait_until = std::chrono::steady_clock::now() + may_wait,
                           .cancelled = cancelled_},
                          [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return answer->get_future();
  }
  // Also once it has its place.
  std::future<Outcome> CreateWaiting(const Pod& pod, std::chrono::milliseconds may_wait = kLong) {
    std::future<Outcome> later = Create(pod, may_wait);
    EXPECT_TRUE(testing::WaitUntil([&] { return HasPlace(pod.uid); })) << pod.uid;
    return later;
  }
  bool HasPlace(const std::string& uid) const {
    const auto waiting = world_.manager->WaitingPods();
    const WaitQueue::Place* const place = waiting->Find(uid);
    return place != nullptr && place->is_confirmed;
  }
  size_t PositionOf(const std::string& uid) const {
    return world_.manager->WaitingPods()->PositionOf(uid);
  }
  uint64_t Ended(WaitEnd end) const { return world_.manager->WaitingPods()->Ended(end); }
  static bool IsAnswered(const std::future<Outcome>& later) {
    return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  static bool IsAdmitted(std::future<Outcome> later) {
    const Outcome outcome = later.get();
    EXPECT_TRUE(testing::AllocatedOf(outcome)) << testing::TextOf(outcome);
    return testing::AllocatedOf(outcome) != nullptr;
  }
  static bool Says(const Outcome& outcome, const std::string& text) {
    return testing::TextOf(outcome).find(text) != std::string::npos;
  }

  static constexpr std::chrono::minutes kLong{10};
  testing::AllocationNode world_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace alignd::allocation
