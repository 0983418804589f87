// Device plugins beside explanations that do not end: they register, announce devices and answer.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "allocation/allocation_manager.h"
#include "control/control_client.h"
#include "control/control_server.h"
#include "daemon/inventory_relay.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/registration_server.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "edge/fake_tree.h"
#include "edge/loop_thread.h"
#include "reconcile/conditions.h"
#include "simulator/device_plugin.h"
#include "sync/task_queue.h"

namespace alignd::control {
namespace {

using namespace alignd::testing;

// No time is measured: after that, a test fails instead of hanging.
constexpr std::chrono::seconds kPluginPatience{20};

// Blocks its callers until it is opened.
class Barrier {
 public:
  void Pass() {
    std::call_once(once_, [this] { reached_.set_value(); });
    may_go_.wait();
  }
  bool IsReached() const {
    return reached_future_.wait_for(kPluginPatience) == std::future_status::ready;
  }
  void Open() {
    if (!std::exchange(is_open_, true)) go_.set_value();
  }

 private:
  std::once_flag once_;
  std::promise<void> reached_;
  std::future<void> reached_future_ = reached_.get_future();
  std::promise<void> go_;
  std::shared_future<void> may_go_ = go_.get_future().share();
  bool is_open_ = false;
};

// Real plugins on real sockets, and all of alignd that their calls pass.
class PluginsBesideExplanations : public ::testing::Test {
 protected:
  PluginsBesideExplanations() {
    relay_.ConnectTo(&manager_);
    auto registration =
        deviceplugin::RegistrationServer::Start(services_.loop(), directory(), plugins_);
    EXPECT_TRUE(registration.ok()) << registration.error().Text();
    if (registration.ok()) registration_ = *std::move(registration);
    auto control = ControlServer::Start(services_.loop(), socket(),
                                        {.facts = {},
                                         .node = node_,
                                         .allocation = manager_,
                                         .conditions = conditions_,
                                         .names = [this] {
                                           why_not_.Pass();
                                           return PodNames();
                                         }});
    EXPECT_TRUE(control.ok()) << control.error().Text();
    if (control.ok()) control_ = *std::move(control);
  }
  ~PluginsBesideExplanations() override {
    refusal_.Open();
    why_not_.Open();
    control_.reset();
    registration_.reset();
    relay_.ConnectTo(nullptr);
  }

  std::filesystem::path directory() const { return tree_.root() / "device-plugins"; }
  std::string socket() const { return (tree_.root() / "control.sock").string(); }

  std::future<Outcome> Admit(allocation::AdmissionRequest request) {
    auto answer = std::make_shared<std::promise<Outcome>>();
    manager_.Admit(std::move(request),
                   [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return answer->get_future();
  }
  // The answer to a pod with a device of that resource. It waits for the plugin's registration.
  Outcome AdmitWith(const std::string& uid, const std::string& resource) {
    std::future<Outcome> answer =
        Admit({.pod = AppPod(uid, 1, {{resource, "1"}}),
               .wait_until = std::chrono::steady_clock::now() + kPluginPatience});
    if (answer.wait_for(kPluginPatience) == std::future_status::ready) return answer.get();
    return Error{ErrorCode::kDeadlineExceeded, "the plugin is delayed"};
  }
  std::unique_ptr<simulator::DevicePlugin> StartPlugin(const std::string& resource) const {
    simulator::DeviceProfile profile;
    profile.directory = directory();
    profile.resource = resource;
    profile.devices = {{"device-0", {0}, true}, {"device-1", {1}, true}};
    profile.prefers_allocation = true;
    auto plugin = simulator::DevicePlugin::Start(profile);
    EXPECT_TRUE(plugin.ok()) << plugin.error().Text();
    return plugin.ok() ? *std::move(plugin) : nullptr;
  }

  // Two explanations begin: of a refusal, and of `alignctl why-not`.
  void BeginExplanations() {
    refused_ = Admit({.pod = AppPod("refused", 15), .describe = [this](const std::string&) {
                        refusal_.Pass();
                        return allocation::PodStanding{};
                      }});
    ASSERT_TRUE(refusal_.IsReached());
    why_not_answer_ = std::async(std::launch::async, [this] {
      v1::WhyNotRequest request;
      request.set_manifest(
          R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"large","uid":"u"},"spec":{"containers":[{)"
          R"("name":"app","resources":{"limits":{"cpu":"99","memory":"1Gi"}}}]}})");
      return ControlClient(socket(), 2 * kPluginPatience).WhyNot(request);
    });
    ASSERT_TRUE(why_not_.IsReached());
  }
  void ExpectExplanationsUnderWay() const {
    EXPECT_EQ(refused_.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    EXPECT_EQ(why_not_answer_.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  }

  const FakeTree tree_;
  Barrier refusal_;
  Barrier why_not_;
  const admission::Node node_ = MakeNode();
  allocation::CheckpointStore store_{{tree_.root(), directory()}};
  TaskQueue background_{"background"};
  daemon::InventoryRelay relay_;
  deviceplugin::PluginRegistry plugins_{{}, relay_, background_};
  reconcile::Conditions conditions_;
  allocation::AllocationManager manager_{node_, admission::NodeState::Initial(node_), store_,
                                         plugins_};
  const LoopThread services_;
  std::unique_ptr<deviceplugin::RegistrationServer> registration_;
  std::unique_ptr<ControlServer> control_;
  std::future<Outcome> refused_;
  std::future<Result<v1::WhyNotResponse>> why_not_answer_;
};

TEST_F(PluginsBesideExplanations, RegisterAndAnswerWhileExplanationsAreComputed) {
  const auto nics = StartPlugin(kNic);
  const Outcome before = AdmitWith("before", kNic);
  ASSERT_TRUE(AllocatedOf(before)) << TextOf(before);
  ASSERT_TRUE(AllocatedOf(Admit({.pod = AppPod("cpus", 1)}).get()));
  ASSERT_NO_FATAL_FAILURE(BeginExplanations());

  const auto gpus = StartPlugin(kGpu);
  const Outcome registered = AdmitWith("registers", kGpu);
  EXPECT_TRUE(AllocatedOf(registered)) << TextOf(registered);
  EXPECT_EQ(gpus->allocations().size(), 1U);

  const Outcome answered = AdmitWith("answers", kNic);
  EXPECT_TRUE(AllocatedOf(answered)) << TextOf(answered);
  EXPECT_EQ(nics->allocations().size(), 2U);
  ExpectExplanationsUnderWay();

  refusal_.Open();
  why_not_.Open();
  const Outcome refusal = refused_.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(refusal)) << TextOf(refusal);
  const Result<v1::WhyNotResponse> why = why_not_answer_.get();
  ASSERT_TRUE(why.ok()) << why.error().Text();
  EXPECT_FALSE(why->fits());
}

}  // namespace
}  // namespace alignd::control
