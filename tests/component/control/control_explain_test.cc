// What the control service says about decisions.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control_fixture.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;

class ControlExplain : public ControlTest {};

bool IsNode0AndPreferred(const v1::Hint& hint) {
  return !hint.any() && hint.preferred() && hint.numa_size() == 1 && hint.numa(0) == 0;
}

TEST_F(ControlExplain, ExplainsWhyAPodHasNoCpusOfItsOwn) {
  Pod pod = AppPod("pod", 2);
  pod.containers[0].resources.requests["cpu"] = *Quantity::Parse("1500m");
  pod.containers[0].resources.limits["cpu"] = *Quantity::Parse("1500m");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  pod = AppPod("loose", 2);
  pod.containers[0].resources.requests["cpu"] = *Quantity::Parse("1");
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));

  const std::vector<v1::PodDecision> loose = Explain("loose");
  ASSERT_EQ(loose.size(), 1u);
  EXPECT_EQ(loose[0].outcome(), "admitted");
  EXPECT_EQ(loose[0].asked(), "app: shared CPUs (Burstable pod)");
  ASSERT_EQ(loose[0].assignments_size(), 1);
  EXPECT_EQ(loose[0].assignments(0).exclusive_cpus(), "");
  const std::vector<v1::PodDecision> fraction = Explain("pod");
  ASSERT_EQ(fraction.size(), 1u);
  EXPECT_TRUE(
      fraction[0].asked().starts_with("app: shared CPUs (1500m CPUs are not a whole number)"))
      << fraction[0].asked();
  EXPECT_NE(Alignctl({"explain", "loose", "--socket", socket()}).out.find("nothing to decide"),
            std::string::npos);
}

TEST_F(ControlExplain, ExplainsTheNewestDecisionsFirst) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("fits", 2))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("fits", 2))));  // no new decision
  const std::vector<v1::PodDecision> all = Explain("");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].pod_uid(), "too-large");
  EXPECT_EQ(all[0].outcome(), "refused");
  EXPECT_EQ(all[0].reason(), "UnexpectedAdmissionError");
  EXPECT_TRUE(all[0].asked().starts_with("app: 99 exclusive CPUs")) << all[0].asked();
  EXPECT_NE(all[0].available(), "");
  const std::vector<v1::PodDecision> newest = Explain("", 1);
  ASSERT_EQ(newest.size(), 1u);
  EXPECT_EQ(newest[0].pod_uid(), "too-large");
  const std::vector<v1::PodDecision> named = Explain("default/fits");
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].pod_uid(), "fits");

  const v1::PodDecision& fits = all[1];
  EXPECT_EQ(fits.pod_namespace(), "default");
  EXPECT_EQ(fits.pod_name(), "fits");
  EXPECT_EQ(fits.outcome(), "admitted");
  EXPECT_GT(fits.time_unix_ms(), 0);
  ASSERT_EQ(fits.containers_size(), 1);
  const v1::ContainerDecision& app = fits.containers(0);
  EXPECT_TRUE(IsNode0AndPreferred(app.merged())) << app.DebugString();
  ASSERT_GE(app.hints_size(), 1);
  EXPECT_EQ(app.hints(0).resource(), "cpu");
  ASSERT_GE(app.candidates_size(), 2);
  EXPECT_EQ(app.candidates(0).verdict(), "best");
  EXPECT_EQ(app.candidates(1).verdict(), "as good, but {0} is lower");
  ASSERT_EQ(fits.assignments_size(), 1);
  EXPECT_EQ(fits.assignments(0).exclusive_cpus(), "2-3");
}

TEST_F(ControlExplain, ExplainsAFailureOfADevicePlugin) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "plugin example.com/gpu: gone"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const v1::PodDecision decision = Explain("pod").at(0);
  EXPECT_EQ(decision.outcome(), "refused");
  EXPECT_EQ(decision.reason(), "UnexpectedAdmissionError");
  EXPECT_TRUE(IsNode0AndPreferred(decision.containers(0).merged())) << decision.DebugString();
  EXPECT_EQ(decision.assignments_size(), 0);
}

// What why-not says of the manifest.
v1::WhyNotResponse WhyNotFits(const std::string& socket, const std::string& manifest) {
  v1::WhyNotRequest request;
  request.set_manifest(manifest);
  const auto why = ControlClient(socket).WhyNot(request);
  EXPECT_TRUE(why.ok()) << why.error().Text();
  return why.ok() ? *why : v1::WhyNotResponse();
}

// A change with no setting of its own.
class SameConfiguration final : public ConfigChanger {
 public:
  explicit SameConfiguration(const admission::Node& node) : node_(node) {}
  Result<admission::Node> NodeFor(const Machine& /*machine*/,
                                  const v1::ChangeRequest& /*request*/) const override {
    return node_;
  }
  Result<uint64_t> Apply(const v1::ChangeRequest& /*request*/) override { return 1; }
  bool MayMove(const v1::ChangeRequest& request) const override { return request.may_move(); }
  void Refused(const Error& /*error*/) override {}
  v1::GetChangeResponse Outcome(uint64_t /*change*/) override { return {}; }
  std::optional<Error> NotApplied() override { return std::nullopt; }

 private:
  const admission::Node& node_;
};

TEST_F(ControlExplain, NoChangeIsPlannedUntilTheContainersAreKnown) {
  SameConfiguration changer(world.node);
  std::atomic<bool> has_adopted = false;
  const std::string other = (world.tree.root() / "changes.sock").string();
  const auto started = ControlServer::Start(services_.loop(), other,
                                            {.facts = {},
                                             .node = world.node,
                                             .allocation = *world.manager,
                                             .conditions = conditions_,
                                             .names = [] { return PodNames(); },
                                             .changer = &changer,
                                             .has_adopted = [&] { return has_adopted.load(); }});
  ASSERT_TRUE(started.ok()) << started.error().Text();
  const ControlClient client(other);
  for (const auto& answer : {client.PlanChange({}), client.ApplyChange({})}) {
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, ErrorCode::kIo);  // an answer, unlike kUnavailable
    EXPECT_NE(answer.error().Text().find("the runtime has not been listed"), std::string::npos)
        << answer.error().Text();
  }
  has_adopted = true;
  EXPECT_TRUE(client.PlanChange({}).ok());
  const auto applied = client.ApplyChange({});
  ASSERT_TRUE(applied.ok()) << applied.error().Text();
  EXPECT_EQ(applied->change(), 1u);
}

TEST_F(ControlExplain, WhyNotLeavesOutResourcesThatAreNoDevices) {
  const std::string manifest =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"licensed","uid":"u"},"spec":{"containers":[{"name":"app","resources":)"
      R"({"limits":{"cpu":"2","memory":"1Gi","example.com/licence":"1"}}}]}})";
  EXPECT_FALSE(WhyNotFits(socket(), manifest).fits());
  const std::string other = (world.tree.root() / "other.sock").string();
  const auto started = ControlServer::Start(services_.loop(), other,
                                            {.facts = {},
                                             .node = world.node,
                                             .allocation = *world.manager,
                                             .conditions = conditions_,
                                             .names = [] { return PodNames(); },
                                             .not_devices = {"example.com/licence"}});
  ASSERT_TRUE(started.ok()) << started.error().Text();
  EXPECT_TRUE(WhyNotFits(other, manifest).fits());
}

// It has what it needs: an answer for a second one would be about another pod.
TEST_F(ControlExplain, WhyNotRefusesTheManifestOfAPodThatRuns) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("u", 2))));
  const auto manifest = [](const std::string& name, const std::string& uid) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name + '"' +
           (uid.empty() ? "" : R"(,"uid":")" + uid + '"') +
           R"(},"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1"}}}]}})";
  };
  const auto refusal = [&](const std::string& text) {
    v1::WhyNotRequest request;
    request.set_manifest(text);
    const auto why = ControlClient(socket()).WhyNot(request);
    return why.ok() ? std::string() : why.error().message;
  };
  const std::string of_uid = refusal(manifest("web", "u"));
  EXPECT_NE(of_uid.find("pod default/web runs on this node"), std::string::npos) << of_uid;
  const std::string of_name = refusal(manifest("u", ""));
  EXPECT_NE(of_name.find("pod default/u runs on this node"), std::string::npos) << of_name;
  EXPECT_TRUE(WhyNotFits(socket(), manifest("other", "v")).fits());
  // A pod that replaces it: of its name, and with a UID of its own.
  EXPECT_TRUE(WhyNotFits(socket(), manifest("u", "v")).fits());
}

// Resources are free, so that no change of them would help: the plugin's error is the answer.
TEST_F(ControlExplain, WhyNotNamesTheErrorOfADevicePlugin) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "plugin example.com/gpu: gone"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  v1::WhyNotRequest request;
  request.set_pod("pod");
  const auto why = ControlClient(socket()).WhyNot(request);
  ASSERT_TRUE(why.ok()) << why.error().Text();
  EXPECT_FALSE(why->fits());
  EXPECT_NE(why->message().find("plugin example.com/gpu: gone"), std::string::npos)
      << why->message();
}

TEST_F(ControlExplain, CarriesTheSourceOfTheResources) {
  std::promise<Outcome> answer;
  world.manager->Admit({.pod = AppPod("pod", 2), .source = "annotation"},
                       [&](Outcome outcome) { answer.set_value(std::move(outcome)); });
  ASSERT_TRUE(AllocatedOf(answer.get_future().get()));
  EXPECT_EQ(Explain("pod").at(0).source(), "annotation");
}

// 15 CPUs can be assigned; 12 are, so that `a` waits and 3 are free.
class ControlWhyNot : public ControlTest {
 protected:
  explicit ControlWhyNot(const allocation::WaitLimits& limits = {}) {
    server.reset();
    world.Down();
    world.waiting.emplace(limits);
    world.Up();
    world.AnnounceDevices();
    Serve();
    EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("x", 12))));
    EXPECT_FALSE(AllocatedOf(Create(AppPod("a", 10))));
  }

  // As for CreateContainer that does not wait.
  allocation::Outcome Create(const Pod& pod) {
    std::promise<allocation::Outcome> answer;
    world.manager->Admit(
        {.pod = pod, .wanted = "app", .wait_until = std::chrono::steady_clock::now()},
        [&answer](allocation::Outcome outcome) { answer.set_value(std::move(outcome)); });
    return answer.get_future().get();
  }

  testing::Printed WhyNot(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"why-not", "--socket", socket()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Alignctl(all);
  }
  // A file with the pod; `limits` and `more`: members of its container and of its spec.
  std::string Manifest(const std::string& name, const std::string& limits,
                       const std::string& more = "") const {
    world.tree.Write(
        {name + ".json", R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ")" + name +
                             R"("}, "spec": {)" + more +
                             R"("containers": [{"name": "app", "image": "i", "resources": {)" +
                             limits + "}}]}}"});
    return (world.tree.root() / (name + ".json")).string();
  }
  static std::string Cpus(int cpus) {
    return R"("limits": {"cpu": ")" + std::to_string(cpus) + R"(", "memory": "1Gi"})";
  }
  static void ExpectWaits(const testing::Printed& why, const std::string& pod) {
    EXPECT_EQ(why.status, cli::kFailure) << why.err;
    for (const std::string& text :
         {"pod default/" + pod + ": does not fit now\n  requested: ",
          "  WaitsForEarlierPods: pod default/a waits for cpu, memory, is before pod default/" +
              pod + " in the queue, and is served first\n",
          std::string("  what would help:\n    wait until pod default/a has started, or delete it\n"
                      "    a pod with a higher priority is served before it\n"),
          std::string("first, because nothing else helps before:\n  wait-for-pods: wait until pod "
                      "default/a, which waits for cpu, memory, has started, or delete it\n")}) {
      EXPECT_NE(why.out.find(text), std::string::npos) << text << ": " << why.out;
    }
    EXPECT_EQ(why.out.find("fits now"), std::string::npos) << why.out;
  }
};

TEST_F(ControlWhyNot, APodThatWouldFitWaitsForThoseBeforeItInTheQueue) {
  ASSERT_FALSE(AllocatedOf(Create(AppPod("b", 1))));
  ExpectWaits(WhyNot({"default/b"}), "b");
  ExpectWaits(WhyNot({"-f", Manifest("c", Cpus(1))}), "c");
  // The node may not know its priority.
  ExpectWaits(WhyNot({"-f", Manifest("c", Cpus(1), R"("priority": 1000, )")}), "c");
  const testing::Printed json = WhyNot({"-o", "json", "default/b"});
  EXPECT_EQ(json.status, cli::kFailure);
  for (const char* const text :
       {R"("fits":false)", R"("reason":"WaitsForEarlierPods")", R"("kind":"wait-for-pods")"}) {
    EXPECT_NE(json.out.find(text), std::string::npos) << text << ": " << json.out;
  }
  const testing::Printed shared = WhyNot({"-f", Manifest("shared", "")});
  EXPECT_EQ(shared.status, cli::kSuccess) << shared.out << shared.err;
}

TEST_F(ControlWhyNot, APodThatDoesNotFitNamesThePodsBeforeIt) {
  ASSERT_FALSE(AllocatedOf(Create(AppPod("b", 4))));
  const testing::Printed why = WhyNot({"default/b"});
  EXPECT_EQ(why.status, cli::kFailure);
  const size_t first = why.out.find("\n  wait-for-pods: wait until pod default/a, ");
  const size_t then = why.out.find("\n  reduce-request: ");
  EXPECT_NE(first, std::string::npos) << why.out;
  EXPECT_NE(then, std::string::npos) << why.out;
  EXPECT_LT(first, then) << why.out;
}

// It is the first in the queue, by its name if the manifest has no UID.
TEST_F(ControlWhyNot, ThePodThatIsServedFirstWaitsForNoPod) {
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"default/a"},
        std::vector<std::string>{"-f", Manifest("a", Cpus(10))}}) {
    const testing::Printed why = WhyNot(asked);
    EXPECT_EQ(why.status, cli::kFailure);
    EXPECT_EQ(why.out.find("wait-for-pods"), std::string::npos) << why.out;
    EXPECT_NE(why.out.find("end-pods: end pod default/x"), std::string::npos) << why.out;
  }
}

// The node does not know its priority, which the manifest has.
TEST_F(ControlWhyNot, APodKeepsItsPlaceWhateverPriorityItsManifestHas) {
  ASSERT_FALSE(AllocatedOf(Create(AppPod("b", 1))));
  ASSERT_TRUE(world.Release("x").ok());
  for (const char* const priority : {R"("priority": -5, )", R"("priority": 5, )"}) {
    const testing::Printed why = WhyNot({"-f", Manifest("a", Cpus(10), priority)});
    EXPECT_EQ(why.status, cli::kSuccess) << why.out << why.err;
  }
  ExpectWaits(WhyNot({"-f", Manifest("b", Cpus(1), R"("priority": 5, )")}), "b");
}

class ControlWhyNotTimeout : public ControlWhyNot {
 protected:
  ControlWhyNotTimeout() : ControlWhyNot({.fail_after = std::chrono::milliseconds(100)}) {}
};

TEST_F(ControlWhyNotTimeout, APodWhoseTimeIsOverDoesNotFitWhateverIsFree) {
  ASSERT_TRUE(
      WaitUntil([this] { return world.manager->WaitingPods()->FindFailed("a") != nullptr; }));
  ASSERT_TRUE(world.Release("x").ok());
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"default/a"},
        std::vector<std::string>{"-f", Manifest("a", Cpus(10))}}) {
    const testing::Printed why = WhyNot(asked);
    EXPECT_EQ(why.status, cli::kFailure) << why.out;
    EXPECT_NE(why.out.find("as long as --on-refusal allows, and is refused from now on"),
              std::string::npos)
        << why.out;
  }
  EXPECT_EQ(WhyNot({"-f", Manifest("other", Cpus(10))}).status, cli::kSuccess);
}

}  // namespace
}  // namespace alignd::control
