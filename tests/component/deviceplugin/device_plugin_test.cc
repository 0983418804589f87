// Device plugins over real sockets: the registration server, the registry and simulated plugins.
#include "simulator/device_plugin.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cri/allocate_response.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/registration_server.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/silent_socket.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceProfile;
using simulator::Manner;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Simulated = simulator::DevicePlugin;

constexpr char kGpu[] = "example.com/gpu";
constexpr seconds kPatience{20};

// A plugin directory with our server in it.
class DevicePlugins : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(); }

  void StartServer() {
    registry_ = std::make_unique<PluginRegistry>(settings_, inventory_);
    Result<std::unique_ptr<RegistrationServer>> server =
        RegistrationServer::Start(directory(), *registry_);
    ASSERT_TRUE(server.ok()) << server.error().Text();
    server_ = *std::move(server);
  }

  void StopServer() {
    server_.reset();
    registry_.reset();
  }

  fs::path directory() const { return tree_.root(); }

  DeviceProfile Profile() const {
    DeviceProfile profile;
    profile.directory = directory();
    profile.resource = kGpu;
    profile.devices = {{"gpu-0", {0}, true}, {"gpu-1", {1}, true}};
    profile.envs = {{"VISIBLE", "{ids}"}};
    return profile;
  }

  static std::unique_ptr<Simulated> Start(
      DeviceProfile profile, std::function<void(const Result<Done>&)> on_registration = {}) {
    Result<std::unique_ptr<Simulated>> plugin =
        Simulated::Start(std::move(profile), std::move(on_registration));
    if (!plugin.ok()) {
      ADD_FAILURE() << plugin.error().Text();
      return nullptr;
    }
    return *std::move(plugin);
  }

  Result<std::string> Allocate(std::vector<std::string> ids, const std::string& resource = kGpu) {
    std::promise<Result<std::string>> answer;
    registry_->Allocate(resource, std::move(ids),
                        [&](Result<std::string> result) { answer.set_value(std::move(result)); });
    return answer.get_future().get();
  }

  std::optional<std::vector<std::string>> Prefer(std::vector<std::string> available, int size) {
    std::promise<std::optional<std::vector<std::string>>> answer;
    registry_->GetPreferredAllocation(
        {.resource = kGpu, .available = std::move(available), .must_include = {}, .size = size},
        [&](std::optional<std::vector<std::string>> ids) { answer.set_value(std::move(ids)); });
    return answer.get_future().get();
  }

  Result<Done> PreStart(std::vector<std::string> ids, const std::string& resource = kGpu) {
    std::promise<Result<Done>> answer;
    registry_->PreStartContainer(resource, std::move(ids),
                                 [&](Result<Done> result) { answer.set_value(result); });
    return answer.get_future().get();
  }

  // The first outcome of a registration that is bound to fail.
  static std::string RefusalOf(DeviceProfile profile) {
    std::promise<Result<Done>> first;
    bool set = false;
    const std::unique_ptr<Simulated> plugin =
        Start(std::move(profile), [&](const Result<Done>& outcome) {
          if (!std::exchange(set, true)) first.set_value(outcome);
        });
    const Result<Done> outcome = first.get_future().get();
    return outcome.ok() ? "" : outcome.error().message;
  }

  PluginSettings settings_;
  testing::FakeTree tree_;
  testing::FakeInventory inventory_;
  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<RegistrationServer> server_;
};

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

TEST_F(DevicePlugins, ListThatSaysNothingNewIsNotPassedOn) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  for (int i = 0; i < 50; ++i) plugin->SetAllHealth(true);
  ASSERT_TRUE(plugin->SetHealth("gpu-0", false).ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-1"}));
  EXPECT_EQ(inventory_.changes(), 2);
}

TEST_F(DevicePlugins, PreferenceIsAskedOnlyOfThoseWhoHaveOne) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::nullopt);
}

TEST_F(DevicePlugins, PreferenceIsHandedOn) {
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

TEST_F(DevicePlugins, PreStartReachesOnlyThoseWhoWantIt) {
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

TEST_F(DevicePlugins, FailureAndSenselessAnswersNameTheResource) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->SetManner(Manner::kFail);
  EXPECT_EQ(Allocate({"gpu-0"}).error(),
            (Error{ErrorCode::kUnavailable,
                   "example.com/gpu: device plugin Allocate: UNKNOWN: simulated failure"}));
  plugin->SetManner(Manner::kNothing);
  EXPECT_EQ(Allocate({"gpu-0"}).error(),
            (Error{ErrorCode::kInvalidArgument,
                   "example.com/gpu: no containers return in allocation response"}));
  EXPECT_EQ(Allocate({"x"}, "example.com/none").error(),
            (Error{ErrorCode::kUnavailable, "example.com/none: no device plugin"}));
}

TEST_F(DevicePlugins, RefusedRegistrationsSayWhy) {
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
  plugin.reset();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  EXPECT_TRUE(inventory_.resources().at(kGpu).registered);
  EXPECT_EQ(inventory_.resources().at(kGpu).devices.size(), 2U);
  EXPECT_EQ(Allocate({"gpu-0"}).error().code, ErrorCode::kUnavailable);

  plugin = Start(Profile());  // within the grace period
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(Allocate({"gpu-0"}).ok());
}

TEST_F(DevicePlugins, PluginThatEndsItsListIsGone) {
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

TEST_F(DevicePlugins, NewPluginWinsAndTheEndOfTheOldOneHarmsNothing) {
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

// The same, with little patience.
class ImpatientDevicePlugins : public DevicePlugins {
 protected:
  void SetUp() override {
    settings_.deadlines = {.connect = milliseconds(300),
                           .preferred = milliseconds(100),
                           .allocate = milliseconds(100),
                           .pre_start = milliseconds(100)};
    settings_.grace = milliseconds(200);
    StartServer();
  }

  void WaitUntilRemoved() {
    EXPECT_TRUE(inventory_.WaitUntil(
        [](const testing::FakeInventory::Resources& resources) { return resources.empty(); }));
  }
};

TEST_F(ImpatientDevicePlugins, HangingPluginTimesOutAndKeepsItsDevices) {
  DeviceProfile profile = Profile();
  profile.prefers_allocation = true;
  profile.pre_start_required = true;
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin->SetManner(Manner::kHang);
  EXPECT_EQ(Allocate({"gpu-0"}).error(),
            (Error{ErrorCode::kDeadlineExceeded,
                   "example.com/gpu: device plugin Allocate: no answer within 100 ms",
                   "see to the plugin's pod; give it more time with --plugin-timeout-ms if it is "
                   "only slow"}));
  EXPECT_EQ(Prefer({"gpu-0", "gpu-1"}, 1), std::nullopt);
  EXPECT_EQ(PreStart({"gpu-0"}).error().code, ErrorCode::kDeadlineExceeded);
  plugin->SetManner(Manner::kAnswer);
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

TEST_F(ImpatientDevicePlugins, ResourceIsRemovedAfterTheGracePeriod) {
  std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin.reset();
  WaitUntilRemoved();
  plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

TEST_F(ImpatientDevicePlugins, ExpectedResourceIsRemovedIfNoPluginComes) {
  inventory_.SetResource(kGpu, {});
  inventory_.SetResource("example.com/nic", {});
  DeviceProfile profile = Profile();
  profile.resource = "example.com/nic";
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy("example.com/nic", {"gpu-0", "gpu-1"}));
  registry_->Expect({kGpu, "example.com/nic"});
  EXPECT_TRUE(PreStart({"gpu-0"}).ok());  // nobody knows whether it is wanted
  EXPECT_TRUE(inventory_.WaitUntil([](const testing::FakeInventory::Resources& resources) {
    return !resources.contains(kGpu);
  }));
  EXPECT_TRUE(inventory_.resources().contains("example.com/nic"));
}

TEST_F(ImpatientDevicePlugins, EndpointThatNobodyServesIsRefusedAndTheOldPluginStays) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "nobody.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  const Result<Done> result = answer.get_future().get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(),
            (Error{ErrorCode::kDeadlineExceeded,
                   "example.com/gpu: failed to dial device plugin: context deadline exceeded",
                   "there is no " + (directory() / "nobody.sock").string() +
                       ", waited for 300 ms: the plugin must serve its socket there, as this node "
                       "sees it"}));
  EXPECT_TRUE(Allocate({"gpu-0"}).ok());
}

TEST_F(ImpatientDevicePlugins, SilentEndpointTimesOut) {
  const testing::SilentSocket silent(directory() / "silent.sock");
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "silent.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  EXPECT_EQ(answer.get_future().get().error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(DevicePlugins, StopDoesNotWaitForASilentEndpoint) {
  const testing::SilentSocket silent(directory() / "silent.sock");
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "silent.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  const auto start = std::chrono::steady_clock::now();
  StopServer();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));  // the dial may take 10
  EXPECT_EQ(answer.get_future().get().error().code, ErrorCode::kUnavailable);
}

TEST(RegistrationServer, RemovesStaleSocketsAndNothingElse) {
  const testing::FakeTree tree{{"kubelet_internal_checkpoint", "{}"}, {"sub/file", "x"}};
  // Sockets of dead processes.
  { const testing::SilentSocket stale(tree.root() / "old.sock"); }
  { const testing::SilentSocket stale(tree.root() / "kubelet.sock"); }
  ASSERT_TRUE(fs::is_socket(tree.root() / "old.sock"));
  testing::FakeInventory inventory;
  PluginRegistry registry({}, inventory);
  const auto server = RegistrationServer::Start(tree.root(), registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();
  EXPECT_FALSE(fs::exists(tree.root() / "old.sock"));
  EXPECT_TRUE(fs::is_socket(tree.root() / "kubelet.sock"));
  EXPECT_TRUE(fs::exists(tree.root() / "kubelet_internal_checkpoint"));
  EXPECT_TRUE(fs::exists(tree.root() / "sub" / "file"));
}

TEST(RegistrationServer, LeavesALivingServerAlone) {
  const testing::FakeTree tree;
  const testing::SilentSocket plugin(tree.root() / "plugin.sock");
  const testing::SilentSocket kubelet(tree.root() / "kubelet.sock");
  testing::FakeInventory inventory;
  PluginRegistry registry({}, inventory);
  const auto server = RegistrationServer::Start(tree.root(), registry);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(fs::exists(tree.root() / "plugin.sock"));
}

TEST(RegistrationServer, MakesItsDirectory) {
  const testing::FakeTree tree;
  testing::FakeInventory inventory;
  PluginRegistry registry({}, inventory);
  const auto server = RegistrationServer::Start(tree.root() / "a" / "b", registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();
  EXPECT_TRUE(fs::is_socket(tree.root() / "a" / "b" / "kubelet.sock"));
}

TEST(RegistrationServer, RefusesPathsThatCannotBe) {
  testing::FakeInventory inventory;
  PluginRegistry registry({}, inventory);
  EXPECT_EQ(RegistrationServer::Start("relative/dir", registry).error().message,
            "bad socketPath, must be an absolute path: relative/dir/kubelet.sock");
  EXPECT_EQ(RegistrationServer::Start("/" + std::string(100, 'a'), registry).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace alignd::deviceplugin
