// `alignctl handover`: the whole way and back, and each step that fails.
#include "moving/handover.h"

#include <sstream>

#include "moving/steps.h"
#include "moving_node.h"

namespace alignd::moving {
namespace {

using PrepareHandover = Result<PreparedHandover> (*)(const HandoverRequest&, Services&);

// Prepares, and runs the steps. The error of either.
Result<Done> RunHandover(const MovingNode& node, PrepareHandover prepare, Services& services,
                         std::string* printed = nullptr) {
  const Result<PreparedHandover> handover = prepare(node.Request(), services);
  if (!handover.ok()) return handover.error();
  if (Result<Done> lawful = RequireNoProblem(handover->plan, "the handover"); !lawful.ok()) {
    return lawful;
  }
  std::ostringstream out;
  Result<Done> done = RunSteps(handover->steps, out);
  if (printed != nullptr) *printed = out.str();
  return done;
}

TEST(Handover, ToAligndMovesTheStateAndTurnsTheKubeletsManagersOff) {
  MovingNode node;
  FakeServices services;
  const cpumanager::CpuState cpus = node.CpusIn("/var/lib/kubelet");
  ASSERT_EQ(cpus.assignments.size(), 2U);
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_TRUE(done.ok()) << done.error().Text();
  EXPECT_TRUE(services.active["kubelet.service"]);
  EXPECT_TRUE(services.active[kAligndService]);
  EXPECT_EQ(node.CpusIn("/var/lib/alignd").assignments, cpus.assignments);
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/kubelet/cpu_manager_state"));
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/kubelet/memory_manager_state"));
  const std::string config = node.Read("/var/lib/kubelet/config.yaml");
  EXPECT_TRUE(MovingNode::Has(config, "cpuManagerPolicy: none\n")) << config;
  EXPECT_TRUE(MovingNode::Has(config, "memoryManagerPolicy: None\n")) << config;
  EXPECT_TRUE(MovingNode::Has(config, "topologyManagerPolicy: none\n")) << config;
  EXPECT_TRUE(MovingNode::Has(node.Read("/etc/default/kubelet"), kubelet::kOurs));
}

TEST(Handover, AndBackEverythingIsAsBefore) {
  MovingNode node;
  FakeServices services;
  const auto before = node.Kept();
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  std::string printed;
  const Result<Done> back = RunHandover(node, &PrepareToKubelet, services, &printed);
  ASSERT_TRUE(back.ok()) << back.error().Text();
  EXPECT_TRUE(services.active["kubelet.service"]);
  EXPECT_FALSE(services.active[kAligndService]);
  auto after = node.Kept();
  // The files of the default release have more parts; their content is the same.
  auto files = before;
  for (const char* const name :
       {"/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"}) {
    ASSERT_TRUE(after.contains(name)) << name;
    after.erase(name);
    files.erase(name);
  }
  EXPECT_EQ(after, files);
  EXPECT_EQ(node.CpusIn("/var/lib/kubelet").assignments.size(), 2U);
}

// For each call of the service manager: it fails, before or after its effect.
void ExpectUndone(PrepareHandover prepare, bool first_to_alignd) {
  int calls = 0;
  for (int fails_at = 1; fails_at == 1 || fails_at <= calls; ++fails_at) {
    for (const bool after_effect : {false, true}) {
      MovingNode node;
      FakeServices services;
      if (first_to_alignd) {
        ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
      }
      services.active[kAligndSocket] = first_to_alignd;
      const auto files = node.Kept();
      const std::set<std::string> running = services.Running();
      FakeServices counted = services;
      services.calls = 0;
      services.fails_at = fails_at;
      services.fails_after_effect = after_effect;
      const Result<Done> done = RunHandover(node, prepare, services);
      ASSERT_FALSE(done.ok()) << fails_at;
      EXPECT_TRUE(MovingNode::Has(done.error().message, "everything is as before"))
          << done.error().message;
      EXPECT_FALSE(done.error().remedy.empty());
      EXPECT_EQ(services.Running(), running) << fails_at << ": " << done.error().message;
      EXPECT_EQ(node.Kept(), files) << fails_at << ": " << done.error().message;
      if (calls > 0) continue;
      counted.calls = 0;
      ASSERT_TRUE(RunHandover(node, prepare, counted).ok());
      calls = counted.calls;
      ASSERT_GT(calls, 3);
    }
  }
}

TEST(Handover, ToAligndUndoesEachStepThatFails) { ExpectUndone(&PrepareToAlignd, false); }

TEST(Handover, ToTheKubeletUndoesEachStepThatFails) { ExpectUndone(&PrepareToKubelet, true); }

TEST(Handover, WhatThePlanNoLongerAllowsIsUndone) {
  MovingNode node;
  FakeServices services;
  const std::string whole = node.Read("/var/lib/kubelet/cpu_manager_state");
  // The kubelet damages its file when it stops.
  services.before_call = [&](const std::string& call) {
    if (call == "stop kubelet.service") node.Write("/var/lib/kubelet/cpu_manager_state", "torn");
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "cpu_manager_state")) << done.error().message;
  EXPECT_TRUE(services.active["kubelet.service"]);
  EXPECT_FALSE(services.active[kAligndService]);
  EXPECT_EQ(node.Read("/var/lib/kubelet/cpu_manager_state"), "torn");
  EXPECT_FALSE(std::filesystem::exists(node.root() / "var/lib/alignd/cpu_manager_state"));
}

TEST(Handover, AContainerThatMovesEndsIt) {
  MovingNode node;
  FakeServices services;
  const auto files = node.Kept();
  const CpuSet own = node.CpusIn("/var/lib/kubelet").assignments.at("uid-1").at("app");
  services.before_call = [&](const std::string& call) {
    if (call == std::string("start ") + kAligndService) node.Run("uid-1", "0,3-5");
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "had the exclusive CPUs " + own.ToString()))
      << done.error().message;
  node.Run("uid-1", own.ToString());
  EXPECT_EQ(node.Kept(), files);
  EXPECT_TRUE(services.active["kubelet.service"]);
}

TEST(Handover, IsRefusedBeforeAnythingIsTouched) {
  struct Case {
    std::string what;
    std::function<void(MovingNode&)> change;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {"another policy",
       [](MovingNode& node) {
         node.Write("/etc/alignd/kubelet-config.yaml",
                    "cpuManagerPolicy: none\nmemoryManagerPolicy: None\n");
       },
       "configured policy"},
      {"other reserved CPUs",
       [](MovingNode& node) {
         std::string text = kPolicies;
         text.replace(text.find("\"0\""), 3, "\"1\"");
         node.Write("/etc/alignd/kubelet-config.yaml", text);
       },
       "give alignd the policies and reservations"},
      {"a damaged file",
       [](MovingNode& node) { node.Write("/var/lib/kubelet/memory_manager_state", "{}x"); },
       "memory_manager_state"},
      {"a flag that sets a policy",
       [](MovingNode& node) {
         node.Write("/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static\n");
       },
       "move --cpu-manager-policy into the file of --config"},
      {"another runtime",
       [](MovingNode& node) {
         node.Write("/usr/lib/systemd/system/alignd.service",
                    "[Service]\nExecStart=/usr/bin/alignd --config "
                    "/etc/alignd/kubelet-config.yaml --runtime-endpoint unix:///run/crio.sock\n");
       },
       "would lose its containers"},
      {"a container that is not where the state says",
       [](MovingNode& node) { node.Run("uid-2", "0-5"); }, "a container of pod uid-2"},
  };
  for (const Case& c : cases) {
    MovingNode node;
    c.change(node);
    FakeServices services;
    const auto files = node.Kept();
    const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
    ASSERT_FALSE(done.ok()) << c.what;
    EXPECT_TRUE(MovingNode::Has(done.error().Text(), c.expected))
        << c.what << ": " << done.error().Text();
    EXPECT_EQ(services.calls, 0) << c.what;
    EXPECT_EQ(node.Kept(), files) << c.what;
  }
}

TEST(Handover, PoliciesThatAreNotAligndsRefuseTheWayBack) {
  MovingNode node;
  FakeServices services;
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  // kubeadm has written the file again since, without the policies.
  node.Write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\ncgroupDriver: systemd\n");
  const int calls = services.calls;
  const Result<Done> back = RunHandover(node, &PrepareToKubelet, services);
  ASSERT_FALSE(back.ok());
  EXPECT_TRUE(MovingNode::Has(back.error().Text(),
                              "set cpuManagerPolicy: static in the kubelet's configuration, "
                              "without restarting it"))
      << back.error().Text();
  EXPECT_EQ(services.calls, calls);
}

TEST(Handover, WithoutARecordOfAttachThereIsNoWayBack) {
  MovingNode node;
  FakeServices services;
  const Result<Done> back = RunHandover(node, &PrepareToKubelet, services);
  ASSERT_FALSE(back.ok());
  EXPECT_TRUE(MovingNode::Has(back.error().message, "was not attached by alignctl"));
}

TEST(Steps, AreUndoneInReverseAndAnUndoThatFailsIsNamed) {
  std::string done;
  const auto step = [&](const std::string& name, bool fails, bool undo_fails) {
    const Error error{ErrorCode::kIo, name + " broke", "repair it"};
    return Step{.what = name,
                .run = [&done, name, fails, error]() -> Result<Done> {
                  done += name + " ";
                  return fails ? Result<Done>(error) : Result<Done>(Done{});
                },
                .undo_what = "undo " + name,
                .undo = [&done, name, undo_fails, error]() -> Result<Done> {
                  done += "-" + name + " ";
                  return undo_fails ? Result<Done>(error) : Result<Done>(Done{});
                }};
  };
  std::ostringstream out;
  const Result<Done> ran = RunSteps({step("a", false, false), step("b", false, true),
                                     step("c", true, false), step("d", false, false)},
                                    out);
  EXPECT_EQ(done, "a b c -c -b -a ");
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().message,
            "step 3 (c): c broke; the steps were undone, but undo b failed: b broke; repair it");
}

}  // namespace
}  // namespace alignd::moving
