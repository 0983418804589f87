// Device plugins over real sockets: the registration server, the registry and simulated plugins.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/devicemanager/device_policy.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "cri/allocate_response.h"
#include "device_plugins_fixture.h"
#include "edge/silent_socket.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceProfile;
using simulator::Manner;
using Simulated = simulator::DevicePlugin;

TEST_F(DevicePlugins, RegisterAnnounceAndAllocate) {
  DeviceProfile profile = Profile();
  profile.devices[1].healthy = false;
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0"}));
  const devicemanager::Resource expected{
      .registered = true,
      .prefers_allocation = false,
      .pre_start_required = false,
      .devices = {{"gpu-0", {true, {0}}}, {"gpu-1", {false, {1}}}}};
  EXPECT_EQ(inventory_.resources().at(kGpu), expected);

  const Result<std::string> answer = Allocate({"gpu-0", "gpu-1"});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  const Result<cri::MergedResponse> merged = cri::MergeResponses({{kGpu, *answer}});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  EXPECT_EQ(merged->envs.at("VISIBLE"), "gpu-0,gpu-1");
  EXPECT_EQ(plugin->allocations(), (std::vector<std::vector<std::string>>{{"gpu-0", "gpu-1"}}));
}

TEST_F(DevicePlugins, HealthAndDevicesFollowThePlugin) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  ASSERT_TRUE(plugin->SetHealth("gpu-0", false).ok());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-1"}));
  ASSERT_TRUE(plugin->SetHealth("gpu-0", true).ok());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->SetDevices({{"gpu-7", {}, true}});
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-7"}));
  EXPECT_EQ(inventory_.resources().at(kGpu).devices.size(), 1U);
  EXPECT_FALSE(plugin->SetHealth("gpu-0", true).ok());
}

// Some machines' firmware names no node: sysfs shows -1, and the plugin passes it on.
TEST_F(DevicePlugins, DeviceOnNodeMinusOneIsAllocatedLast) {
  DeviceProfile profile = Profile();
  profile.devices = {{"gpu-0", {-1}, true}, {"gpu-1", {0}, true}, {"gpu-2", {1}, true}};
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1", "gpu-2"}));
  devicemanager::DeviceState state;
  state.resources[kGpu] = inventory_.resources().at(kGpu);
  const Machine machine = MakeMachine("numa:2 core:2");
  const auto allocate = [&](const std::string& uid, const std::string& count) {
    const Pod pod = MakePod(uid, {App("app", {{kGpu, count}})});
    const std::optional<Refusal> refusal =
        devicemanager::Allocate(machine, pod, pod.containers.front(),
                                {.affinity = NumaMask::Of(1), .preferred = true}, nullptr, state);
    EXPECT_FALSE(refusal) << refusal->message;
    return state.Find({uid, "app"}, kGpu)->devices;
  };
  EXPECT_EQ(allocate("a", "2"), (devicemanager::DevicesPerNuma{{0, {"gpu-1"}}, {1, {"gpu-2"}}}));
  EXPECT_EQ(allocate("b", "1"), (devicemanager::DevicesPerNuma{{-1, {"gpu-0"}}}));
}

TEST_F(DevicePlugins, UnchangedListIsNotPassedOn) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  for (int i = 0; i < 50; ++i) plugin->SetAllHealth(true);
  ASSERT_TRUE(plugin->SetHealth("gpu-0", false).ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-1"}));
  EXPECT_EQ(inventory_.changes(), 2);
}

TEST_F(DevicePlugins, PreferenceIsAskedOnlyOfPluginsThatOfferIt) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::nullopt);
}

TEST_F(DevicePlugins, PreferenceIsPassedOn) {
  DeviceProfile profile = Profile();
  profile.prefers_allocation = true;
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(inventory_.resources().at(kGpu).prefers_allocation);
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::vector<std::string>{"gpu-1"});
  plugin->SetManner(Manner::kFail);
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::nullopt);
  plugin->SetManner(Manner::kNothing);
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::nullopt);
}

TEST_F(DevicePlugins, PreStartReachesOnlyPluginsThatRequireIt) {
  const std::unique_ptr<Simulated> plain = Start(Profile());
  DeviceProfile profile = Profile();
  profile.resource = "example.com/fpga";
  profile.pre_start_required = true;
  const std::unique_ptr<Simulated> fpga = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  ASSERT_TRUE(inventory_.WaitForHealthy("example.com/fpga", {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(PreStart({"gpu-0"}).ok());
  EXPECT_TRUE(plain->pre_starts().empty());
  EXPECT_TRUE(PreStart({"gpu-1"}, "example.com/fpga").ok());
  EXPECT_EQ(fpga->pre_starts(), (std::vector<std::vector<std::string>>{{"gpu-1"}}));
  fpga->SetManner(Manner::kFail);
  EXPECT_FALSE(PreStart({"gpu-1"}, "example.com/fpga").ok());
  EXPECT_EQ(PreStart({"x"}, "example.com/none").error().message,
            "example.com/none: no device plugin");
}

TEST_F(DevicePlugins, FailuresAndUselessAnswersNameTheResource) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->SetManner(Manner::kFail);
  EXPECT_EQ(Allocate({"gpu-0"}).error(),
            (Error{ErrorCode::kUnavailable,
                   "example.com/gpu: device plugin Allocate: UNKNOWN: simulated failure",
                   "check the plugin's pod and its log"}));
  plugin->SetManner(Manner::kNothing);
  EXPECT_EQ(Allocate({"gpu-0"}).error(),
            (Error{ErrorCode::kInvalidArgument,
                   "example.com/gpu: no containers return in allocation response",
                   "report this to the maintainers of the device plugin"}));
  EXPECT_EQ(Allocate({"x"}, "example.com/none").error(),
            (Error{ErrorCode::kUnavailable, "example.com/none: no device plugin",
                   "start the device plugin, or check its pod and its log"}));
}

TEST_F(DevicePlugins, RefusedRegistrationsGiveTheReason) {
  DeviceProfile wrong_version = Profile();
  wrong_version.version = "v1alpha1";
  EXPECT_EQ(RefusalOf(wrong_version),
            "register: requested API version \"v1alpha1\" is not supported by kubelet. Supported "
            "version is [\"v1beta1\"]");
  DeviceProfile wrong_name = Profile();
  wrong_name.resource = "kubernetes.io/gpu";
  EXPECT_EQ(RefusalOf(wrong_name), "register: the ResourceName \"kubernetes.io/gpu\" is invalid");
  DeviceProfile escaping = Profile();
  fs::create_directory(directory() / "sub");
  escaping.socket = "sub/gpu.sock";
  EXPECT_EQ(RefusalOf(escaping),
            "register: the endpoint \"sub/gpu.sock\" is not a file name in the plugin directory");
  EXPECT_TRUE(inventory_.resources().empty());
}

TEST_F(DevicePlugins, DeadPluginLeavesUnhealthyDevicesAndFailingCalls) {
  std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(registry_->Disconnected().empty());
  const auto before = std::chrono::steady_clock::now();
  plugin.reset();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  EXPECT_TRUE(inventory_.resources().at(kGpu).registered);
  EXPECT_EQ(inventory_.resources().at(kGpu).devices.size(), 2U);
  EXPECT_EQ(Allocate({"gpu-0"}).error().code, ErrorCode::kUnavailable);
  const auto disconnected = registry_->Disconnected();
  ASSERT_TRUE(disconnected.contains(kGpu));
  EXPECT_GE(disconnected.at(kGpu), before);
  EXPECT_LE(disconnected.at(kGpu), std::chrono::steady_clock::now());

  plugin = Start(Profile());  // within the grace period
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(registry_->Disconnected().empty());
  EXPECT_TRUE(Allocate({"gpu-0"}).ok());
}

TEST_F(DevicePlugins, PluginThatEndsItsListIsDisconnected) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->EndLists();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  EXPECT_EQ(Allocate({"gpu-0"}).error().message, "example.com/gpu: no device plugin");
}

TEST_F(DevicePlugins, CallInFlightFailsWhenThePluginDies) {
  std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->SetManner(Manner::kHang);
  std::promise<Result<std::string>> answer;
  registry_->Allocate(kGpu, {"gpu-0"},
                      [&](Result<std::string> result) { answer.set_value(std::move(result)); });
  plugin.reset();
  const Result<std::string> result = answer.get_future().get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
}

TEST_F(DevicePlugins, NewPluginReplacesTheOldOneWhoseEndIsIgnored) {
  DeviceProfile first = Profile();
  first.socket = "first.sock";
  std::unique_ptr<Simulated> old_plugin = Start(first);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  DeviceProfile second = Profile();
  second.socket = "second.sock";
  second.devices = {{"gpu-9", {}, true}};
  const std::unique_ptr<Simulated> new_plugin = Start(second);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-9"}));

  old_plugin->SetAllHealth(false);
  old_plugin.reset();
  EXPECT_TRUE(Allocate({"gpu-9"}).ok());
  new_plugin->SetDevices({{"gpu-9", {}, true}, {"gpu-8", {}, true}});
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-8", "gpu-9"}));
  EXPECT_EQ(inventory_.changes(), 3);  // never unhealthy in between
}

TEST_F(DevicePlugins, RestartOfTheServerBringsPluginsBack) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  StopServer();
  tree_.Write({"kubelet_internal_checkpoint", "{}"});
  StartServer();
  ASSERT_TRUE(plugin->WaitForRegistrations(2, kPatience));
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(Allocate({"gpu-1"}).ok());
  EXPECT_TRUE(fs::exists(directory() / "kubelet_internal_checkpoint"));
}

TEST_F(DevicePlugins, TenThousandDevices) {
  DeviceProfile profile = Profile();
  profile.devices.clear();
  for (int i = 0; i < 10'000; ++i) {
    profile.devices.push_back({"slice-" + std::to_string(i), {i % 8}, true});
  }
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitUntil([](const testing::FakeInventory::Resources& resources) {
    return resources.contains(kGpu) && resources.at(kGpu).devices.size() == 10'000;
  }));
  const testing::FakeInventory::Resources resources = inventory_.resources();
  std::vector<std::string> ids;
  for (const auto& [id, device] : resources.at(kGpu).devices) ids.push_back(id);
  const Result<std::string> answer = Allocate(ids);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_GT(answer->size(), 100'000U);
}

TEST_F(DevicePlugins, RegistryEndsAfterItsQueue) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  background_.Stop();
  StopServer();
  EXPECT_EQ(registry_, nullptr);
}

TEST_F(DevicePlugins, StopDoesNotWaitForASilentEndpoint) {
  const testing::SilentSocket silent(directory() / "silent.sock");
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "silent.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  const auto start = std::chrono::steady_clock::now();
  StopServer();
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(5));  // the dial may take 10 s
  EXPECT_EQ(answer.get_future().get().error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace alignd::deviceplugin
