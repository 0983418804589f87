// Plugins that are found by their sockets: the watcher, the registry and simulated plugins over
// real sockets.
#include "deviceplugin/plugin_watcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deviceplugin/plugin_registry.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/silent_socket.h"
#include "simulator/device_plugin.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;
using simulator::DeviceProfile;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Simulated = simulator::DevicePlugin;

constexpr char kGpu[] = "example.com/gpu";
constexpr seconds kPatience{20};

class WatchedPlugins : public ::testing::Test {
 protected:
  WatchedPlugins() { settings_.first_pause = milliseconds(20); }
  ~WatchedPlugins() override {
    watcher_.reset();
    registry_.reset();
  }

  void StartWatcher(PluginSettings plugin_settings = {}) {
    registry_ = std::make_unique<PluginRegistry>(plugin_settings, inventory_);
    auto watcher = PluginWatcher::Start(directory(), *registry_, settings_);
    ASSERT_TRUE(watcher.ok()) << watcher.error().Text();
    watcher_ = *std::move(watcher);
  }

  fs::path directory() const { return tree_.root() / "registry"; }

  DeviceProfile Profile(const std::string& resource = kGpu) const {
    DeviceProfile profile;
    profile.registry = directory();
    profile.resource = resource;
    profile.devices = {{"gpu-0", {0}, true}, {"gpu-1", {1}, true}};
    return profile;
  }

  static std::unique_ptr<Simulated> Start(DeviceProfile profile) {
    auto plugin = Simulated::Start(std::move(profile));
    EXPECT_TRUE(plugin.ok()) << plugin.error().Text();
    return plugin.ok() ? *std::move(plugin) : nullptr;
  }

  bool WaitForRefusal(const Simulated& plugin, const std::string& text) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (plugin.refusal().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  bool CanAllocate() {
    std::promise<bool> answer;
    registry_->Allocate(kGpu, {"gpu-0"},
                        [&](const Result<std::string>& result) { answer.set_value(result.ok()); });
    return answer.get_future().get();
  }

  const testing::FakeTree tree_;
  testing::FakeInventory inventory_;
  WatcherSettings settings_;
  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<PluginWatcher> watcher_;
};

TEST_F(WatchedPlugins, ComesBeforeTheWatcher) {
  fs::create_directories(directory() / "vendor");
  DeviceProfile profile = Profile();
  profile.registry = directory() / "vendor";  // in a folder of its own
  const auto plugin = Start(profile);
  StartWatcher();
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(plugin->WaitForRegistrations(1, kPatience));
  EXPECT_TRUE(CanAllocate());
}

TEST_F(WatchedPlugins, ComesAfterTheWatcher) {
  StartWatcher();
  fs::create_directories(directory() / "vendor");
  DeviceProfile profile = Profile();
  profile.registry = directory() / "vendor";
  const auto in_a_folder = Start(profile);
  const auto beside = Start(Profile("example.com/nic"));
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(inventory_.WaitForHealthy("example.com/nic", {"gpu-0", "gpu-1"}));
}

TEST_F(WatchedPlugins, GoesAndComesBack) {
  StartWatcher();
  auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  plugin.reset();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(CanAllocate());
}

TEST_F(WatchedPlugins, SurvivesARestartOfTheWatcher) {
  StartWatcher();
  const auto plugin = Start(Profile());
  ASSERT_TRUE(plugin->WaitForRegistrations(1, kPatience));
  watcher_.reset();
  registry_.reset();
  StartWatcher();
  EXPECT_TRUE(plugin->WaitForRegistrations(2, kPatience));
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

TEST_F(WatchedPlugins, IsGoneWhenItsSocketGoesAlthoughItLives) {
  StartWatcher();
  const auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  fs::remove(directory() / Profile().SocketName());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
}

TEST_F(WatchedPlugins, OldSocketGoesWhenItsSuccessorServesAlready) {
  StartWatcher();
  DeviceProfile first = Profile();
  first.socket = "first.sock";
  auto old_plugin = Start(first);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  DeviceProfile second = Profile();
  second.socket = "second.sock";
  second.devices = {{"gpu-9", {}, true}};
  const auto new_plugin = Start(second);
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-9"}));
  old_plugin.reset();
  ASSERT_TRUE(new_plugin->WaitForRegistrations(1, kPatience));
  new_plugin->SetDevices({{"gpu-9", {}, true}, {"gpu-8", {}, true}});
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-8", "gpu-9"}));
  EXPECT_EQ(inventory_.changes(), 3);  // never unhealthy in between
}

TEST_F(WatchedPlugins, AreToldWhyTheyAreRefused) {
  StartWatcher();
  DeviceProfile old_version = Profile();
  old_version.version = "v1alpha1";
  const auto old_plugin = Start(old_version);
  const auto native = Start(Profile("cpu"));
  EXPECT_TRUE(WaitForRefusal(*old_plugin, "is not among plugin supported versions"));
  EXPECT_TRUE(WaitForRefusal(*native, "the ResourceName \"cpu\" is invalid"));
  EXPECT_TRUE(inventory_.resources().empty());
}

TEST_F(WatchedPlugins, LeavesAloneWhatIsHiddenOrNoSocket) {
  StartWatcher();
  DeviceProfile hidden = Profile("example.com/hidden");
  hidden.socket = ".hidden.sock";
  const auto unseen = Start(hidden);
  tree_.Write({"registry/file.sock", "no socket"});
  const auto seen = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(unseen->registrations(), 0);
  EXPECT_FALSE(inventory_.resources().contains("example.com/hidden"));
}

TEST_F(WatchedPlugins, OneThatHangsDelaysNobodyElse) {
  fs::create_directories(directory());
  const testing::SilentSocket silent(directory() / "a-silent.sock");
  StartWatcher();
  const auto plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

TEST_F(WatchedPlugins, PluginIsAwaitedUntilItsFirstListAndNoLongerThanPatienceSays) {
  StartWatcher({.deadlines = {}, .grace = kPatience, .patience = kPatience});
  registry_->Expect({kGpu});
  EXPECT_EQ(registry_->Awaited(kGpu)->message,
            "example.com/gpu: its device plugin is not there yet");
  EXPECT_EQ(registry_->Awaited(kGpu)->code, ErrorCode::kUnavailable);
  auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(registry_->Awaited(kGpu), std::nullopt);
  plugin.reset();
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
  EXPECT_TRUE(registry_->Awaited(kGpu).has_value());
}

TEST_F(WatchedPlugins, PluginIsNotAwaitedWithoutPatience) {
  StartWatcher({.deadlines = {}, .grace = kPatience, .patience = milliseconds(0)});
  registry_->Expect({kGpu});
  EXPECT_EQ(registry_->Awaited(kGpu), std::nullopt);
}

}  // namespace
}  // namespace alignd::deviceplugin
