// The control service over a real socket, with a real allocation manager behind it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <sstream>

#include "cli/explain_command.h"
#include "cli/report_text.h"
#include "cli/status_command.h"
#include "control/control_client.h"
#include "control/control_server.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;

class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    world.Up();
    world.AnnounceDevices();
    Serve();
  }

  void Serve() {
    auto started = ControlServer::Start(socket(), "1.2.3", world.node, *world.manager, conditions_,
                                        [this] { return names_; });
    if (!started.ok()) ADD_FAILURE() << started.error().Text();
    if (started.ok()) server = *std::move(started);
  }

  std::string socket() const { return (world.tree.root() / "control.sock").string(); }

  StatusReport Status() const {
    const Result<StatusReport> status = ControlClient(socket()).GetStatus();
    if (!status.ok()) ADD_FAILURE() << status.error().Text();
    return status.ok() ? *status : StatusReport{};
  }

  std::vector<DecisionReport> Explain(const std::string& pod, uint32_t limit = 0) const {
    const auto decisions = ControlClient(socket()).Explain(pod, limit);
    if (!decisions.ok()) ADD_FAILURE() << decisions.error().Text();
    return decisions.ok() ? *decisions : std::vector<DecisionReport>{};
  }

  AllocationNode world;
  reconcile::Conditions conditions_;
  const PodNames names_{{"before-us", "default/older-than-we"}};
  std::unique_ptr<ControlServer> server;
};

struct Printed {
  int status = 0;
  std::string out;
  std::string err;
};

Printed Alignctl(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"alignctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = cli::RunProgram(static_cast<int>(argv.size()), argv.data(),
                                     {cli::AddStatusCommand, cli::AddExplainCommand}, out, err);
  return {status, out.str(), err.str()};
}

TEST_F(ControlTest, TellsThatTheRuntimeDoesNotAnswer) {
  EXPECT_EQ(Status().conditions.runtime_outage, std::nullopt);
  conditions_.RuntimeAsked();
  conditions_.RuntimeFailed({ErrorCode::kUnavailable, "no such socket"});
  StatusReport status = Status();
  ASSERT_TRUE(status.conditions.runtime_outage);
  status.conditions.runtime_outage->first_unix_ms = 1'000;
  status.conditions.runtime_outage->last_unix_ms = 46'000;
  std::ostringstream out;
  cli::PrintStatus(status, out);
  for (const char* text :
       {"THE RUNTIME DOES NOT ANSWER since 1970-01-01 00:00:01 UTC (45 s): no such socket. It has "
        "not answered since alignd started: what is shown as held is what the state files say",
        "  remedy: start the runtime"}) {
    EXPECT_NE(out.str().find(text), std::string::npos) << text << "\n" << out.str();
  }
  conditions_.RuntimeAnswered();
  EXPECT_EQ(Status().conditions.runtime_outage, std::nullopt);
}

TEST_F(ControlTest, TellsWhatItTakesToKeepContainersInPlace) {
  conditions_.Repaired({.time = std::chrono::system_clock::now(),
                        .container = {"c1", {"pod", "app"}, "default/web"},
                        .was = "CPUs 0-7",
                        .should = "CPUs 1-2",
                        .noticed = std::chrono::milliseconds(30),
                        .lasted = std::chrono::milliseconds(4000)});
  for (int i = 0; i < 3; ++i) {
    conditions_.UpdateFailed({"c2", {"pod", "log"}}, "CPUs 3-7",
                             {ErrorCode::kUnavailable, "no answer"});
  }
  conditions_.UpdateFailed({"c3", {"pod", "log"}}, "CPUs 3-7",
                           {ErrorCode::kUnavailable, "no answer"});
  conditions_.UpdateSettled("c3");
  conditions_.QuotaNotLifted("slow",
                             {ErrorCode::kIo, "write cpu.max: read-only", "make it writable"});
  conditions_.QuotaNotLifted("fast",
                             {ErrorCode::kIo, "write cpu.max: read-only", "make it writable"});
  conditions_.QuotaSettled("fast");
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.SawConflictingManager("the kubelet is static", "set it to none");
  conditions_.FoundUnmanaged({{"c4", {"pod", "strange"}, "default/web"}});

  StatusReport status = Status();
  EXPECT_EQ(status.conditions.repairs, 1U);
  ASSERT_EQ(status.conditions.last_repairs.size(), 1U);
  EXPECT_EQ(status.conditions.last_repairs[0].was, "CPUs 0-7");
  EXPECT_EQ(status.conditions.last_repairs[0].noticed_ms, 30);
  EXPECT_EQ(status.conditions.last_repairs[0].lasted_ms, 4000);
  ASSERT_EQ(status.conditions.failed_updates.size(), 1U);
  EXPECT_EQ(status.conditions.failed_updates[0].container_id, "c2");
  EXPECT_EQ(status.conditions.failed_updates[0].times, 3U);
  ASSERT_EQ(status.conditions.throttled_pods.size(), 1U);
  EXPECT_EQ(status.conditions.throttled_pods[0].pod_uid, "slow");
  status.conditions.throttled_pods[0].first_unix_ms = 2'000;
  ASSERT_EQ(status.conditions.conflicting_managers.size(), 1U);
  EXPECT_EQ(status.conditions.conflicting_managers[0].times, 2U);
  EXPECT_GE(status.conditions.conflicting_managers[0].last_unix_ms,
            status.conditions.conflicting_managers[0].first_unix_ms);
  status.conditions.conflicting_managers[0].last_unix_ms = 1'000;
  ASSERT_EQ(status.conditions.unmanaged.size(), 1U);
  status.conditions.unmanaged[0].first_unix_ms = 3'000;

  std::ostringstream out;
  cli::PrintStatus(status, out);
  for (const char* text :
       {"ANOTHER CPU MANAGER: the kubelet is static (2 times, last seen 1970-01-01 00:00:01 UTC)\n"
        "  remedy: set it to none\n",
        "THROTTLED POD: pod slow has exclusive CPUs, and a CFS quota that cannot be lifted: write "
        "cpu.max: read-only (since 1970-01-01 00:00:02 UTC)\n  remedy: make it writable\n",
        "MADE PAST ALIGND: container strange of pod default/web: it was made at the runtime itself",
        " (since 1970-01-01 00:00:03 UTC)\n  remedy: give who makes containers",
        "1 repair of cpusets",
        "container app of pod default/web was CPUs 0-7, should be CPUs 1-2: put back within 30 ms "
        "of that being noticed, 4000 ms after it was last seen to be right",
        "cannot be moved: container log of pod pod to CPUs 3-7, 3 times: no answer"}) {
    EXPECT_NE(out.str().find(text), std::string::npos) << text << "\n" << out.str();
  }
}

TEST_F(ControlTest, TellsWhatIsHeldAndWhatIsLeft) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const StatusReport status = Status();
  EXPECT_EQ(status, ReportStatus("1.2.3", world.node, *world.manager->snapshot(), names_,
                                 world.manager->decisions()));
  EXPECT_EQ(status.version, "1.2.3");
  EXPECT_EQ(status.policies.cpu_manager, "static");
  ASSERT_EQ(status.numa.size(), 2u);
  EXPECT_EQ(status.numa[0].free_cpus.Count(), 5);  // of 8: one reserved, two given
  EXPECT_EQ(status.numa[0].devices.at(kGpu), (admission::Availability{3, 4}));
  EXPECT_EQ(status.default_set, world.published().cpu.default_set);
  EXPECT_EQ(status.reserved_cpus, CpuSet{0});
  ASSERT_EQ(status.devices.size(), 2u);
  EXPECT_EQ(status.devices[0].healthy, (admission::Availability{7, 8}));
  ASSERT_EQ(status.containers.size(), 1u);
  EXPECT_EQ(status.containers[0].pod, "default/pod");
  EXPECT_EQ(status.containers[0].exclusive.Count(), 2);
  EXPECT_EQ(status.containers[0].memory_nodes, std::vector<int>{0});
  EXPECT_EQ(status.containers[0].devices.at(kGpu), (std::vector<AssignedDevice>{{"gpu0", {0}}}));
  ASSERT_TRUE(world.Release("pod").ok());
  EXPECT_TRUE(Status().containers.empty());
  EXPECT_GT(Status().generation, status.generation);
}

TEST_F(ControlTest, MarksHeldDevicesThatAil) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const auto problem = [this] { return Status().containers.at(0).devices.at(kGpu).at(0).problem; };
  EXPECT_EQ(problem(), "");
  devicemanager::Resource gpus = EightDevices("gpu");
  gpus.devices.at("gpu0").healthy = false;
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "unhealthy");
  gpus.devices.erase("gpu0");
  world.manager->SetResource(kGpu, gpus);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin lists it no more");
  world.manager->RemoveResource(kGpu);
  world.Settle();
  EXPECT_EQ(problem(), "its plugin is not there");
  EXPECT_NE(Alignctl({"status", "--socket", socket()})
                .out.find("gpu0 (NUMA 0) [its plugin is not there]"),
            std::string::npos);
  world.AnnounceDevices();
  EXPECT_EQ(problem(), "");
  server.reset();
  world.Down();  // the restored state knows the device, and no plugin yet
  world.Up();
  Serve();
  EXPECT_EQ(problem(), "its plugin is not there");
}

TEST_F(ControlTest, NamesPodsAsTheRuntimeDoes) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("before-us", 1))));
  EXPECT_EQ(Status().containers.at(0).pod, "default/older-than-we");
}

TEST_F(ControlTest, ExplainsWhyAPodHasNoCpusOfItsOwn) {
  Pod pod = AppPod("pod", 2);
  pod.containers[0].resources.requests["cpu"] = *Quantity::Parse("1500m");
  pod.containers[0].resources.limits["cpu"] = *Quantity::Parse("1500m");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  pod = AppPod("loose", 2);
  pod.containers[0].resources.requests["cpu"] = *Quantity::Parse("1");
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));

  const std::vector<DecisionReport> loose = Explain("loose");
  ASSERT_EQ(loose.size(), 1u);
  EXPECT_EQ(loose[0].outcome, "granted");
  EXPECT_EQ(loose[0].asked, "app: shared CPUs (Burstable pod)");
  ASSERT_EQ(loose[0].assignments.size(), 1u);
  EXPECT_TRUE(loose[0].assignments[0].exclusive.empty());
  const std::vector<DecisionReport> fraction = Explain("pod");
  ASSERT_EQ(fraction.size(), 1u);
  EXPECT_TRUE(fraction[0].asked.starts_with("app: shared CPUs (1500m CPUs are not a whole number)"))
      << fraction[0].asked;
  EXPECT_NE(Alignctl({"explain", "loose", "--socket", socket()}).out.find("nothing to decide"),
            std::string::npos);
}

TEST_F(ControlTest, AnswersWhileADecisionIsPending) {
  world.plugins->Hold();
  std::future<Outcome> later = world.AdmitLater(AppPod("slow", 2, {{kGpu, "1"}}));
  world.plugins->AwaitHeld(1);
  EXPECT_TRUE(Status().containers.empty());
  EXPECT_TRUE(Explain("").empty());
  world.plugins->LetGo();
  ASSERT_TRUE(AllocatedOf(later.get()));
  EXPECT_EQ(Status().containers.size(), 1u);
  EXPECT_EQ(Explain("").size(), 1u);
}

TEST_F(ControlTest, ExplainsTheNewestDecisionsFirst) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("fits", 2))));
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("too-large", 99))));
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("fits", 2))));  // no new decision
  const std::vector<DecisionReport> all = Explain("");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].pod_uid, "too-large");
  EXPECT_EQ(all[0].outcome, "refused");
  EXPECT_FALSE(all[0].reason.empty());
  EXPECT_TRUE(all[0].asked.starts_with("app: 99 exclusive CPUs")) << all[0].asked;
  EXPECT_FALSE(all[0].left.empty());
  EXPECT_EQ(Explain("", 1), std::vector<DecisionReport>{all[0]});
  EXPECT_EQ(Explain("default/fits"), std::vector<DecisionReport>{all[1]});

  const DecisionReport& fits = all[1];
  EXPECT_EQ(fits.outcome, "granted");
  EXPECT_GT(fits.time_unix_ms, 0);
  ASSERT_EQ(fits.containers.size(), 1u);
  EXPECT_EQ(fits.containers[0].merged, (HintReport{std::vector<int>{0}, true}));
  EXPECT_EQ(fits.containers[0].hints.at(0).resource, "cpu");
  EXPECT_EQ(fits.containers[0].candidates.at(0).verdict, "best");
  EXPECT_EQ(fits.containers[0].candidates.at(1).verdict, "as good, but {0} is lower");
  ASSERT_EQ(fits.assignments.size(), 1u);
  EXPECT_EQ(fits.assignments[0].exclusive.Count(), 2);
}

TEST_F(ControlTest, TellsWhatAPluginSpoilt) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "plugin example.com/gpu: gone"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const DecisionReport decision = Explain("pod").at(0);
  EXPECT_EQ(decision.outcome, "refused");
  EXPECT_EQ(decision.reason, "UnexpectedAdmissionError");
  EXPECT_EQ(decision.containers.at(0).merged, (HintReport{std::vector<int>{0}, true}));
  EXPECT_TRUE(decision.assignments.empty());
}

TEST_F(ControlTest, CarriesWordsThatAreNoUtf8) {
  world.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "bad \xff byte"});
  ASSERT_FALSE(AllocatedOf(world.Admit(AppPod("pod", 2, {{kGpu, "1"}}))));
  const std::vector<DecisionReport> decisions = Explain("pod");
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_NE(decisions[0].message.find("bad \xEF\xBF\xBD byte"), std::string::npos)
      << decisions[0].message;
}

TEST_F(ControlTest, CarriesTheSourceOfTheResources) {
  std::promise<Outcome> answer;
  world.manager->Admit({.pod = AppPod("pod", 2), .source = "annotation"},
                       [&](Outcome outcome) { answer.set_value(std::move(outcome)); });
  ASSERT_TRUE(AllocatedOf(answer.get_future().get()));
  EXPECT_EQ(Explain("pod").at(0).source, "annotation");
}

TEST_F(ControlTest, IsForOwnerAndGroupOnly) {
  struct stat status {};
  ASSERT_EQ(::stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0660u);
}

TEST_F(ControlTest, PrintsTextAndJson) {
  ASSERT_TRUE(AllocatedOf(world.Admit(AppPod("pod", 2))));
  const Printed status = Alignctl({"status", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kSuccess) << status.err;
  EXPECT_NE(status.out.find("default/pod (pod)  app        2-3   NUMA 0  -\n"), std::string::npos)
      << status.out;
  const Printed json = Alignctl({"status", "--socket", socket(), "-o", "json"});
  EXPECT_NE(json.out.find(R"("container":"app","exclusive_cpus":"2-3")"), std::string::npos)
      << json.out;
  const Printed explain = Alignctl({"explain", "pod", "--socket", socket()});
  EXPECT_NE(explain.out.find("    merged: {0}!\n      {0}!: best\n"), std::string::npos)
      << explain.out;
  const Printed unknown = Alignctl({"explain", "nobody", "--socket", socket(), "-o", "json"});
  EXPECT_EQ(unknown.out, "[]\n");
}

TEST_F(ControlTest, SaysThatNobodyServes) {
  server.reset();
  const Printed status = Alignctl({"status", "--socket", socket()});
  EXPECT_EQ(status.status, cli::kFailure);
  EXPECT_EQ(status.out, "");
  EXPECT_NE(status.err.find("see whether alignd runs"), std::string::npos) << status.err;
}

}  // namespace
}  // namespace alignd::control
