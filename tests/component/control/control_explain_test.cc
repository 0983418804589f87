// What the control service says about decisions.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "control_fixture.h"
#include "edge/allocation_outcome.h"

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

}  // namespace
}  // namespace alignd::control
