// `alignctl handover`: the whole way and back, and each step that fails.
#include "moving/handover.h"

#include <sstream>

#include "daemon/change_undo.h"
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

struct Killed {};

// `alignctl` ends at the given call of the service manager, before it, as by SIGKILL.
void KillAt(MovingNode& node, PrepareHandover prepare, FakeServices& services, int call) {
  int calls = 0;
  services.before_call = [&](const std::string&) {
    if (++calls == call) throw Killed{};
  };
  EXPECT_THROW((void)RunHandover(node, prepare, services), Killed) << call;
  services.before_call = nullptr;
}

void ExpectResumed(PrepareHandover prepare, bool first_to_alignd) {
  std::map<std::string, std::string> done;
  int calls = 0;
  for (int call = 0; call <= calls; ++call) {
    MovingNode node;
    FakeServices services;
    if (first_to_alignd) {
      ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
      services.active[kAligndSocket] = true;
    }
    services.calls = 0;
    if (call > 0) KillAt(node, prepare, services, call);
    const Result<bool> recovered = RecoverInterrupted(node.Request(), services, false);
    ASSERT_TRUE(recovered.ok()) << call << ": " << recovered.error().Text();
    const Result<Done> again = RunHandover(node, prepare, services);
    ASSERT_TRUE(again.ok()) << call << ": " << again.error().Text();
    EXPECT_TRUE(services.active["kubelet.service"]) << call;
    EXPECT_EQ(services.active[kAligndService], !first_to_alignd) << call;
    EXPECT_FALSE(services.active[kAligndSocket]) << call;
    if (call == 0) {
      done = node.Kept();
      calls = services.calls;
      ASSERT_GT(calls, 3);
    }
    EXPECT_EQ(node.Kept(), done) << call;
  }
}

TEST(Handover, ToAligndIsRepeatedAfterAKillAtEachStep) { ExpectResumed(&PrepareToAlignd, false); }

TEST(Handover, ToTheKubeletIsRepeatedAfterAKillAtEachStep) {
  ExpectResumed(&PrepareToKubelet, true);
}

TEST(Handover, AfterAKillBetweenTwoFilesTheNextOneRestoresThemFirst) {
  MovingNode node;
  FakeServices services;
  const auto files = node.Kept();
  const std::vector<std::filesystem::path> paths = {
      node.root() / "var/lib/alignd/cpu_manager_state",
      node.root() / "var/lib/kubelet/cpu_manager_state",
      node.root() / "var/lib/kubelet/config.yaml"};
  std::filesystem::create_directories(node.root() / "var/lib/alignd");
  ASSERT_TRUE(daemon::ChangeUndo::Begin(node.root() / "var/lib/alignd", paths,
                                        node.Read("/etc/alignd/kubelet-config.yaml"))
                  .ok());
  std::filesystem::rename(paths[1], paths[0]);
  node.Write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
  node.Write("/proc/77/cmdline", std::string("/usr/bin/kubelet\0", 17));
  const Result<bool> runs = RecoverInterrupted(node.Request(), services, false);
  ASSERT_FALSE(runs.ok());
  EXPECT_TRUE(MovingNode::Has(runs.error().message, "a kubelet runs (process 77)"));
  std::filesystem::remove_all(node.root() / "proc/77");
  const Result<bool> dry = RecoverInterrupted(node.Request(), services, true);
  ASSERT_FALSE(dry.ok());
  EXPECT_TRUE(MovingNode::Has(dry.error().message, "config_change_undo")) << dry.error().message;
  const Result<bool> recovered = RecoverInterrupted(node.Request(), services, false);
  ASSERT_TRUE(recovered.ok()) << recovered.error().Text();
  EXPECT_TRUE(*recovered);
  EXPECT_EQ(node.Kept(), files);
  EXPECT_FALSE(*RecoverInterrupted(node.Request(), services, false));
}

TEST(Handover, ASecondOneSaysThatThereIsNothingToDo) {
  MovingNode node;
  FakeServices services;
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  const auto files = node.Kept();
  const Result<Done> again = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().remedy, "there is nothing to hand over");
  ASSERT_TRUE(RunHandover(node, &PrepareToKubelet, services).ok());
  const Result<Done> back = RunHandover(node, &PrepareToKubelet, services);
  ASSERT_FALSE(back.ok());
  EXPECT_TRUE(MovingNode::Has(back.error().message, "does not use alignd")) << back.error().Text();
}

TEST(Handover, AnAttachedKubeletWhoseFilesDidNotMoveIsNoRestOfAHandover) {
  MovingNode node;
  FakeServices services;
  const std::string kubelets = node.Read("/var/lib/kubelet/cpu_manager_state");
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  services.active.clear();
  node.Write("/var/lib/kubelet/cpu_manager_state", kubelets);
  const Result<Done> again = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(again.ok());
  EXPECT_TRUE(MovingNode::Has(again.error().remedy, "alignctl state import"))
      << again.error().Text();
  EXPECT_TRUE(services.Running().empty());
}

TEST(Handover, TheKubeletIsNotStartedWithoutItsFiles) {
  MovingNode node;
  FakeServices services;
  services.fails_at = 4;  // the start of alignd
  services.before_call = [&](const std::string& call) {
    // The kubelet's file cannot be restored.
    if (call == std::string("start ") + kAligndService) {
      node.Write("/var/lib/kubelet/cpu_manager_state/in-the-way", "");
    }
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(
      done.error().message, "not done: start kubelet.service, because its files are not restored"))
      << done.error().message;
  EXPECT_TRUE(services.Running().empty());
  // The next one restores them, when that is possible.
  std::filesystem::remove_all(node.root() / "var/lib/kubelet/cpu_manager_state");
  services.fails_at = 0;
  services.before_call = nullptr;
  const Result<bool> recovered = RecoverInterrupted(node.Request(), services, false);
  ASSERT_TRUE(recovered.ok()) << recovered.error().Text();
  const Result<Done> again = RunHandover(node, &PrepareToAlignd, services);
  EXPECT_TRUE(again.ok()) << again.error().Text();
  EXPECT_EQ(node.CpusIn("/var/lib/alignd").assignments.size(), 2U);
}

TEST(Handover, PodsThatCameMeanwhileAreNamedWhenItIsUndone) {
  MovingNode node;
  FakeServices services;
  services.before_call = [&](const std::string& call) {
    if (call != "start kubelet.service" || !services.active[kAligndService]) return;
    cpumanager::CpuState more = node.CpusIn("/var/lib/alignd");
    more.default_set = *CpuSet::Parse("0,4");
    more.assignments["uid-2"]["late"] = *CpuSet::Parse("5");
    node.Write("/var/lib/alignd/cpu_manager_state",
               checkpoint::FormatCpuCheckpoint("static", more, checkpoint::StateForm::kData));
    node.Run("uid-1", "4");  // so that the last check fails
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "restored files do not have: uid-2: delete"))
      << done.error().message;
  EXPECT_TRUE(services.active["kubelet.service"]);
}

TEST(Handover, AServiceThatDoesNotStopEndsIt) {
  for (const std::string unit : {"kubelet.service", kAligndService}) {
    MovingNode node;
    FakeServices services;
    services.active[kAligndService] = true;
    services.ignores_stop_of = unit;
    const auto files = node.Kept();
    const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
    ASSERT_FALSE(done.ok()) << unit;
    EXPECT_TRUE(MovingNode::Has(done.error().message, unit + " runs still")) << done.error().Text();
    EXPECT_EQ(node.Kept(), files);
    EXPECT_EQ(services.Running().size(), 2U);
  }
  // Another unit has started a kubelet.
  MovingNode node;
  FakeServices services;
  node.Write("/proc/77/cmdline", std::string("/usr/bin/kubelet\0", 17));
  const auto files = node.Kept();
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "a kubelet runs still (process 77)"))
      << done.error().Text();
  EXPECT_EQ(node.Kept(), files);
}

TEST(Handover, AFileOfTheKubeletThatChangesMeanwhileIsNotOverwritten) {
  MovingNode node;
  FakeServices services;
  const std::string edited = node.Read("/var/lib/kubelet/config.yaml") + "maxPods: 7\n";
  services.before_call = [&](const std::string& call) {
    if (call == "stop kubelet.service") node.Write("/var/lib/kubelet/config.yaml", edited);
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "was changed by another program"))
      << done.error().Text();
  EXPECT_EQ(node.Read("/var/lib/kubelet/config.yaml"), edited);
  EXPECT_EQ(node.CpusIn("/var/lib/kubelet").assignments.size(), 2U);
}

TEST(Handover, WithoutAnyCgroupOfAPodNothingIsMoved) {
  MovingNode node;
  FakeServices services;
  std::filesystem::remove_all(node.root() / "cgroup/kubepods.slice");
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().Text(), "--cgroup-root")) << done.error().Text();
  EXPECT_EQ(services.calls, 0);
}

TEST(Handover, AContainerWithOtherMemoryNodesRefusesIt) {
  MovingNode node;
  FakeServices services;
  const CpuSet cpus = node.CpusIn("/var/lib/kubelet").assignments.at("uid-1").at("app");
  node.Run("uid-1", cpus.ToString(), "one", "0-1");
  const auto files = node.Kept();
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().Text(),
                              "may use memory of NUMA nodes 0-1, and container app is assigned "
                              "memory of NUMA nodes 0"))
      << done.error().Text();
  EXPECT_EQ(services.calls, 0);
  EXPECT_EQ(node.Kept(), files);
}

// The program that was started last has decided about it: the state of before does not have it.
TEST(Handover, APodThatComesInItsLastSecondsDoesNotUndoIt) {
  for (const bool to_alignd : {true, false}) {
    MovingNode node;
    FakeServices services;
    if (!to_alignd) {
      ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
    }
    services.before_call = [&](const std::string& call) {
      if (call != "start kubelet.service") return;
      node.Run("uid-exclusive", "5", "late", "1");
      node.Run("uid-shared", "0,3-5", "late", "1");  // it has memory of its own
    };
    const Result<Done> done =
        RunHandover(node, to_alignd ? &PrepareToAlignd : &PrepareToKubelet, services);
    ASSERT_TRUE(done.ok()) << done.error().Text();
    EXPECT_EQ(services.active[kAligndService], to_alignd);
  }
}

// As the one before: `uid-1` is known, and its next container was not created yet.
TEST(Handover, AContainerOfAKnownPodThatComesInItsLastSecondsDoesNotUndoIt) {
  MovingNode node;
  FakeServices services;
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  services.before_call = [&](const std::string& call) {
    if (call == "start kubelet.service") node.Run("uid-1", "5", "late", "1");
  };
  const Result<Done> done = RunHandover(node, &PrepareToKubelet, services);
  ASSERT_TRUE(done.ok()) << done.error().Text();
}

// The first plan does not know it, and that of the move does.
TEST(Handover, APodThatComesBeforeTheStopIsCompared) {
  MovingNode node;
  FakeServices services;
  services.before_call = [&](const std::string& call) {
    if (call == "stop kubelet.service") node.Run("uid-unknown", "5", "late");
  };
  const Result<Done> done = RunHandover(node, &PrepareToAlignd, services);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(MovingNode::Has(done.error().message, "pod uid-unknown")) << done.error().message;
}

TEST(Handover, DevicesAreNotImportedBesideAMirror) {
  MovingNode node;
  node.Write("/usr/lib/systemd/system/alignd.service",
             "[Service]\nExecStart=/usr/bin/alignd --config /etc/alignd/kubelet-config.yaml "
             "--mirror=preferred --runtime-endpoint " +
                 std::string(kubelet::kContainerd) + "\n");
  FakeServices services;
  HandoverRequest request = node.Request();
  request.devices = true;
  const Result<PreparedHandover> refused = PrepareToAlignd(request, services);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(MovingNode::Has(refused.error().message, "--mirror=preferred"));
  request.devices = false;
  EXPECT_TRUE(PrepareToAlignd(request, services).ok());
}

TEST(Handover, AnotherRuntimeRefusesTheWayBack) {
  MovingNode node;
  FakeServices services;
  ASSERT_TRUE(RunHandover(node, &PrepareToAlignd, services).ok());
  node.Write("/usr/lib/systemd/system/alignd.service",
             "[Service]\nExecStart=/usr/bin/alignd --config /etc/alignd/kubelet-config.yaml "
             "--runtime-endpoint unix:///run/crio.sock\n");
  const Result<Done> back = RunHandover(node, &PrepareToKubelet, services);
  ASSERT_FALSE(back.ok());
  EXPECT_TRUE(MovingNode::Has(back.error().message, "would lose its containers"))
      << back.error().Text();
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

TEST(Steps, NoProgramIsStartedWithFilesThatWereNotRestored) {
  bool started = false;
  std::ostringstream out;
  const auto nothing = []() -> Result<Done> { return Done{}; };
  const auto fail = []() -> Result<Done> { return Error{ErrorCode::kIo, "broke", "repair it"}; };
  const Result<Done> ran = RunSteps(
      {{.what = "stop a",
        .run = nothing,
        .undo_what = "start a",
        .undo = [&]() -> Result<Done> {
          started = true;
          return Done{};
        },
        .needs_files = true},
       {.what = "move", .run = fail, .undo_what = "restore", .undo = fail, .restores_files = true}},
      out);
  ASSERT_FALSE(ran.ok());
  EXPECT_FALSE(started);
  EXPECT_EQ(ran.error().message,
            "step 2 (move): broke; the steps were undone, but restore failed: broke; repair it; "
            "not done: start a, because its files are not restored");
}

}  // namespace
}  // namespace alignd::moving
