// The allocation manager with its threads: refusals are explained beside the next decisions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocation/allocation_manager.h"
#include "allocation/refusal_explanations.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

// Counts what the metrics would count.
class CountedDecisions final : public AllocationEvents {
 public:
  void Decided(const DecisionReport& report) override {
    if (report.decision.refusal) ++refused;
  }
  std::atomic<int> refused = 0;
};

constexpr int kTooMany = 15;  // CPUs: more than are free beside `holder`

class Refusals : public ::testing::Test {
 protected:
  Refusals() {
    world_.events = &counted_;
    world_.Up();
    EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("holder", 1))));
  }
  ~Refusals() override {
    LetGo();
    world_.Down();
  }

  struct Request {
    std::future<Outcome> answer;
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };

  // The explanation names the holders of the CPUs, and so calls `describe`.
  Request Ask(Pod pod, std::shared_ptr<std::atomic<int>> described = nullptr) {
    Request request;
    auto answer = std::make_shared<std::promise<Outcome>>();
    request.answer = answer->get_future();
    world_.manager->Admit({.pod = std::move(pod),
                           .describe =
                               [described](const std::string& /*uid*/) {
                                 if (described) ++*described;
                                 return PodStanding{.name = "ns/holder", .is_ending = true};
                               },
                           .cancelled = request.cancelled},
                          [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return request;
  }

  // A refusal whose explanation does not end before LetGo. Returns when it has begun.
  std::future<Outcome> AskAndHold() {
    auto answer = std::make_shared<std::promise<Outcome>>();
    auto begun = std::make_shared<std::promise<void>>();
    auto begun_once = std::make_shared<std::once_flag>();
    std::future<Outcome> outcome = answer->get_future();
    world_.manager->Admit({.pod = AppPod("held", kTooMany),
                           .describe =
                               [begun, begun_once, go = go_](const std::string& /*uid*/) {
                                 std::call_once(*begun_once, [&] { begun->set_value(); });
                                 go.wait();
                                 return PodStanding{};
                               }},
                          [answer](Outcome refused) { answer->set_value(std::move(refused)); });
    begun->get_future().wait();
    return outcome;
  }
  void LetGo() {
    if (!std::exchange(has_gone_, true)) may_go_.set_value();
  }

  // Returns when all that was asked before is decided.
  void Decide() { (void)world_.manager->KnownPods(); }
  static bool IsAnswered(const std::future<Outcome>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // How often the decision log has the pod.
  uint64_t LoggedTimes(const std::string& uid) const {
    uint64_t times = 0;
    for (const auto& decision : world_.manager->decisions().Newest(uid, DecisionLog::kCapacity)) {
      times += decision->times;
    }
    return times;
  }
  static void ExpectExplained(const Outcome& outcome) {
    ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
    const std::string text = TextOf(outcome);
    EXPECT_NE(text.find(". Requested: app: 15 exclusive CPUs"), std::string::npos) << text;
    EXPECT_NE(text.find(". Free: NUMA node 0: "), std::string::npos) << text;
    EXPECT_NE(text.find(". What would help: "), std::string::npos) << text;
    EXPECT_NE(text.find(". Still assigned: pod ns/holder (holder)"), std::string::npos) << text;
  }

  CountedDecisions counted_;
  AllocationNode world_;
  std::promise<void> may_go_;
  std::shared_future<void> go_ = may_go_.get_future().share();
  bool has_gone_ = false;
};

// Without a queue, as with --on-refusal=refuse.
TEST_F(Refusals, NameTheHoldersOfWhatIsShortAlone) {
  world_.AnnounceDevices();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("gpu" + std::to_string(i), 0, {{kGpu, "1"}}))));
  }
  const Outcome outcome = Ask(AppPod("late", 2, {{kGpu, "1"}})).answer.get();
  const std::string text = TextOf(outcome);
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << text;
  EXPECT_NE(text.find(". Still assigned: pod "), std::string::npos) << text;
  EXPECT_NE(text.find("container app has example.com/gpu gpu7"), std::string::npos) << text;
  EXPECT_EQ(text.find("(holder)"), std::string::npos) << text;
  EXPECT_NE(text.find("run \"alignctl why-not default/late\""), std::string::npos) << text;
}

TEST_F(Refusals, NameNoHoldersIfThePodDoesNotFitOnTheEmptyNode) {
  const Outcome outcome = Ask(AppPod("wide", 40)).answer.get();
  const std::string text = TextOf(outcome);
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << text;
  EXPECT_NE(text.find("it does not fit even on the empty node"), std::string::npos) << text;
  EXPECT_EQ(text.find("Still assigned"), std::string::npos) << text;
}

TEST_F(Refusals, DelayNoOtherDecisionAndNoRelease) {
  std::future<Outcome> held = AskAndHold();
  EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("next", 4))));
  EXPECT_TRUE(world_.Release("next").ok());
  EXPECT_FALSE(IsAnswered(held));
  LetGo();
  const Outcome outcome = held.get();
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_EQ(LoggedTimes("held"), 1U);
  EXPECT_EQ(counted_.refused, 1);
  EXPECT_EQ(admission::PodsIn(world_.published()), std::set<std::string>{"holder"});
}

// The explanation is that of the state in which the pod was refused.
TEST_F(Refusals, AreExplainedFromTheStateOfTheDecision) {
  std::future<Outcome> held = AskAndHold();
  Request refused = Ask(AppPod("refused", kTooMany));
  Decide();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("later", 10))));
  LetGo();
  const Outcome outcome = refused.answer.get();
  ExpectExplained(outcome);
  EXPECT_NE(TextOf(outcome).find("NUMA node 0: 6 of 8 CPUs"), std::string::npos) << TextOf(outcome);
  const auto logged = world_.manager->decisions().Newest("refused", 1);
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_NE(logged[0]->available.find("NUMA node 1: 8 of 8 CPUs"), std::string::npos)
      << logged[0]->available;
}

TEST_F(Refusals, GiveOneAnswerToAllCallersOfAPod) {
  std::future<Outcome> held = AskAndHold();
  const auto described = std::make_shared<std::atomic<int>>(0);
  Request first = Ask(AppPod("pod", kTooMany), described);
  Request second = Ask(AppPod("pod", kTooMany), described);
  Decide();
  EXPECT_FALSE(IsAnswered(first.answer));
  LetGo();
  ExpectExplained(first.answer.get());
  ExpectExplained(second.answer.get());
  EXPECT_EQ(*described, 1);
  EXPECT_EQ(LoggedTimes("pod"), 1U);
}

// Above the limit, the answer comes at once, and says what it lacks.
TEST_F(Refusals, OfAFloodAreNotAllExplained) {
  std::future<Outcome> held = AskAndHold();
  constexpr size_t kMore = 5;
  std::vector<Request> requests;
  for (size_t i = 0; i < RefusalExplanations::kMaxWaiting + kMore; ++i) {
    requests.push_back(Ask(AppPod("pod" + std::to_string(i), kTooMany)));
  }
  Decide();
  const auto short_ones = static_cast<size_t>(std::ranges::count_if(
      requests, [](const Request& request) { return IsAnswered(request.answer); }));
  EXPECT_EQ(short_ones, kMore);
  LetGo();
  for (size_t i = 0; i < requests.size(); ++i) {
    const Outcome outcome = requests[i].answer.get();
    const std::string uid = "pod" + std::to_string(i);
    EXPECT_EQ(LoggedTimes(uid), 1U) << uid;
    if (i < RefusalExplanations::kMaxWaiting) {
      ExpectExplained(outcome);
      continue;
    }
    ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
    const std::string& text = std::get<Refusal>(outcome).message;
    EXPECT_NE(
        text.find("Not explained: too many other refusals wait for their explanation, or no thread "
                  "can be started. What would help: run \"alignctl why-not "),
        std::string::npos)
        << text;
  }
  EXPECT_EQ(counted_.refused, static_cast<int>(requests.size()) + 1);
  // All of them are refused by the policies, so that why-not explains them.
  for (const PendingPod& pod : world_.manager->pending_pods().Report()) EXPECT_TRUE(pod.by_policy);
}

TEST_F(Refusals, WhoseCallersHaveGoneAreNotExplained) {
  std::future<Outcome> held = AskAndHold();
  const auto described = std::make_shared<std::atomic<int>>(0);
  Request gone = Ask(AppPod("gone", kTooMany), described);
  Request back = Ask(AppPod("back", kTooMany));
  Decide();
  for (Request* request : {&gone, &back}) {
    *request->cancelled = true;
    world_.manager->DropCancelled();
    EXPECT_EQ(TextOf(request->answer.get()), "error: the caller cancelled the call; call it again");
  }
  Request again = Ask(AppPod("back", kTooMany));
  Decide();
  LetGo();
  ExpectExplained(again.answer.get());
  EXPECT_EQ(*described, 0);
  EXPECT_EQ(LoggedTimes("gone"), 1U);
  // The second time it is decided anew, and refused once more.
  EXPECT_EQ(LoggedTimes("back"), 2U);
  EXPECT_EQ(world_.manager->decisions().Newest("back", 9).size(), 1U);
  EXPECT_EQ(counted_.refused, 4);
}

// What was free when the caller came first is not what is free now.
TEST_F(Refusals, WhoseCallersHaveGoneAreNoAnswerForTheNextCaller) {
  std::future<Outcome> held = AskAndHold();
  Request gone = Ask(AppPod("pod", 10));
  EXPECT_TRUE(AllocatedOf(gone.answer.get()));
  Request refused = Ask(AppPod("later", 10));
  Decide();
  *refused.cancelled = true;
  world_.manager->DropCancelled();
  refused.answer.wait();
  EXPECT_TRUE(world_.Release("pod").ok());
  Request again = Ask(AppPod("later", 10));
  EXPECT_TRUE(AllocatedOf(again.answer.get()));  // although `held` is still being explained
  EXPECT_FALSE(IsAnswered(held));
  EXPECT_EQ(LoggedTimes("later"), 2U);
}

TEST_F(Refusals, AreAnsweredWhenAligndStops) {
  std::future<Outcome> held = AskAndHold();
  const auto described = std::make_shared<std::atomic<int>>(0);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(Ask(AppPod("pod" + std::to_string(i), kTooMany), described));
  }
  Decide();
  std::thread stop([this] { world_.manager.reset(); });
  // The answers do not wait for the explanation that is being made.
  for (Request& request : requests) {
    EXPECT_EQ(TextOf(request.answer.get()), "error: alignd is stopping; call it again");
  }
  EXPECT_EQ(TextOf(held.get()), "error: alignd is stopping; call it again");
  LetGo();
  stop.join();
  EXPECT_EQ(*described, 0);
}

TEST_F(Refusals, OfAReleasedPodAreDropped) {
  std::future<Outcome> held = AskAndHold();
  EXPECT_TRUE(world_.Release("held").ok());
  EXPECT_TRUE(IsError(held.get(), ErrorCode::kUnavailable));
  LetGo();
  ExpectExplained(Ask(AppPod("held", kTooMany)).answer.get());
  EXPECT_EQ(counted_.refused, 1);
}

}  // namespace
}  // namespace alignd::allocation
