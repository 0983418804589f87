// Device plugins over real sockets with short deadlines and a short grace period.
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "device_plugins_fixture.h"
#include "edge/silent_socket.h"

namespace alignd::deviceplugin {
namespace {

using simulator::DeviceProfile;
using simulator::Manner;
using std::chrono::milliseconds;
using Simulated = simulator::DevicePlugin;

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
                   "check the plugin's pod; if the plugin is only slow, increase "
                   "--plugin-timeout-ms"}));
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

TEST_F(ImpatientDevicePlugins, ExpectedResourceIsRemovedIfNoPluginRegisters) {
  inventory_.SetResource(kGpu, {});
  inventory_.SetResource("example.com/nic", {});
  DeviceProfile profile = Profile();
  profile.resource = "example.com/nic";
  const std::unique_ptr<Simulated> plugin = Start(profile);
  ASSERT_TRUE(inventory_.WaitForHealthy("example.com/nic", {"gpu-0", "gpu-1"}));
  registry_->Expect({kGpu, "example.com/nic"});
  EXPECT_TRUE(PreStart({"gpu-0"}).ok());  // no plugin has said whether it requires the call
  EXPECT_TRUE(inventory_.WaitUntil([](const testing::FakeInventory::Resources& resources) {
    return !resources.contains(kGpu);
  }));
  EXPECT_TRUE(inventory_.resources().contains("example.com/nic"));
}

TEST_F(ImpatientDevicePlugins, ResourceStaysIfTheRegistryEndsBeforeTheGracePeriod) {
  auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin.reset();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  StopServer();
  std::promise<void> after_grace;
  background_.PostAt(TaskQueue::Clock::now() + 2 * settings_.grace,
                     [&] { after_grace.set_value(); });
  after_grace.get_future().wait();
  EXPECT_TRUE(inventory_.resources().contains(kGpu));
}

TEST_F(ImpatientDevicePlugins, MissingEndpointIsRefusedAndTheOldPluginStays) {
  const std::unique_ptr<Simulated> plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "missing.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  const Result<Done> result = answer.get_future().get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(
      result.error(),
      (Error{ErrorCode::kDeadlineExceeded,
             "example.com/gpu: failed to dial device plugin: context deadline exceeded: " +
                 (directory() / "missing.sock").string() + ": connect: No such file or directory",
             (directory() / "missing.sock").string() +
                 " does not exist, waited for 300 ms; the plugin must make its socket there, "
                 "as this node sees the path"}));
  EXPECT_TRUE(Allocate({"gpu-0"}).ok());
}

TEST_F(ImpatientDevicePlugins, SilentEndpointTimesOut) {
  const testing::SilentSocket silent(directory() / "silent.sock");
  std::promise<Result<Done>> answer;
  registry_->Register(kGpu, directory() / "silent.sock",
                      [&](Result<Done> result) { answer.set_value(result); });
  EXPECT_EQ(answer.get_future().get().error().code, ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace alignd::deviceplugin
