// Plugins found by their sockets: the watcher, the registry and simulated plugins over real
// sockets.
#include "deviceplugin/plugin_watcher.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deviceplugin/plugin_registry.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/no_descriptors.h"
#include "edge/silent_socket.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "host/event_loop.h"
#include "simulator/device_plugin.h"
#include "sync/task_queue.h"

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
  WatchedPlugins() : loop_(*host::EventLoop::Make()) {
    settings_.first_pause = milliseconds(20);
    loop_->Start();
  }
  ~WatchedPlugins() override {
    watcher_.reset();
    registry_.reset();
    loop_->Stop();
  }

  void StartWatcher(PluginSettings plugin_settings = {}) {
    registry_ = std::make_unique<PluginRegistry>(plugin_settings, inventory_, background_);
    auto watcher = PluginWatcher::Start(directory(), *registry_, loop_, settings_);
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
  const std::shared_ptr<host::EventLoop> loop_;
  TaskQueue background_{"background"};
  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<PluginWatcher> watcher_;
};

TEST_F(WatchedPlugins, ExistsBeforeTheWatcher) {
  fs::create_directories(directory() / "vendor");
  DeviceProfile profile = Profile();
  profile.registry = directory() / "vendor";  // in a folder of its own
  const auto plugin = Start(profile);
  StartWatcher();
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(plugin->WaitForRegistrations(1, kPatience));
  EXPECT_TRUE(CanAllocate());
}

TEST_F(WatchedPlugins, StartsAfterTheWatcher) {
  StartWatcher();
  fs::create_directories(directory() / "vendor");
  DeviceProfile profile = Profile();
  profile.registry = directory() / "vendor";
  const auto in_a_folder = Start(profile);
  const auto beside = Start(Profile("example.com/nic"));
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(inventory_.WaitForHealthy("example.com/nic", {"gpu-0", "gpu-1"}));
}

TEST_F(WatchedPlugins, WatchesTheDirectoryOnceThatIsPossible) {
  if (!testing::kCanLackDescriptors) GTEST_SKIP() << "the sanitizer needs file descriptors";
  settings_.look_again = milliseconds(20);
  fs::create_directories(directory());
  {
    const testing::NoDescriptors limited;
    StartWatcher();
  }
  const auto plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_TRUE(CanAllocate());
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

TEST_F(WatchedPlugins, EndsWhenItsSocketIsRemovedWhileItRuns) {
  StartWatcher();
  const auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  fs::remove(directory() / Profile().SocketName());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {}));
}

TEST_F(WatchedPlugins, OldSocketIsRemovedWhileItsSuccessorServes) {
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

TEST_F(WatchedPlugins, AreNotifiedOfTheReasonForARefusal) {
  StartWatcher();
  DeviceProfile old_version = Profile();
  old_version.version = "v1alpha1";
  const auto old_plugin = Start(old_version);
  const auto native = Start(Profile("cpu"));
  EXPECT_TRUE(WaitForRefusal(*old_plugin, "is not among plugin supported versions"));
  EXPECT_TRUE(WaitForRefusal(*native, "the ResourceName \"cpu\" is invalid"));
  EXPECT_TRUE(inventory_.resources().empty());
}

TEST_F(WatchedPlugins, IgnoresHiddenSocketsAndOtherFiles) {
  StartWatcher();
  DeviceProfile hidden = Profile("example.com/hidden");
  hidden.socket = ".hidden.sock";
  const auto unseen = Start(hidden);
  tree_.Write({"registry/file.sock", "not a socket"});
  const auto seen = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(unseen->registrations(), 0);
  EXPECT_FALSE(inventory_.resources().contains("example.com/hidden"));
}

// The threads of this process.
size_t CountThreads() {
  const fs::directory_iterator threads("/proc/self/task");
  return static_cast<size_t>(std::distance(fs::begin(threads), fs::end(threads)));
}

TEST_F(WatchedPlugins, SilentSocketDelaysNoOtherPlugin) {
  fs::create_directories(directory());
  const testing::SilentSocket silent(directory() / "a-silent.sock");
  StartWatcher();
  const auto plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

TEST_F(WatchedPlugins, SocketsBeyondTheLimitWaitTheirTurn) {
  settings_.max_attempts = 2;
  settings_.deadlines.info = milliseconds(100);
  fs::create_directories(directory());
  std::vector<std::unique_ptr<testing::SilentSocket>> silent;
  for (int i = 0; i < 7; ++i) {
    silent.push_back(
        std::make_unique<testing::SilentSocket>(directory() / ("a-" + std::to_string(i))));
  }
  StartWatcher();
  const auto plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

// A socket that accepts connections, counts them, and never answers.
class CountedSocket {
 public:
  explicit CountedSocket(const fs::path& path)
      : socket_(testing::ListenUnix(path, SOMAXCONN, SOCK_STREAM | SOCK_NONBLOCK)) {}
  size_t Count() {
    for (;;) {
      host::Descriptor connection(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.fd() < 0) return connections_.size();
      connections_.push_back(std::move(connection));
    }
  }

 private:
  const host::Descriptor socket_;
  std::vector<host::Descriptor> connections_;
};

// Each of them would be waited for the whole deadline.
TEST_F(WatchedPlugins, SocketsThatNeverAnswerDelayOthersOnlyShortly) {
  constexpr int kSockets = 40;
  settings_.max_attempts = 2;
  settings_.deadlines.info = std::chrono::hours(1);
  settings_.crowded_info = milliseconds(50);
  fs::create_directories(directory());
  std::vector<std::unique_ptr<testing::SilentSocket>> silent;
  for (int i = 0; i < kSockets; ++i) {
    silent.push_back(
        std::make_unique<testing::SilentSocket>(directory() / ("a-" + std::to_string(i))));
  }
  StartWatcher();
  const auto plugin = Start(Profile());
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
}

// It has its whole deadline while no other socket waits.
TEST_F(WatchedPlugins, SocketThatDoesNotAnswerIsWaitedForIfNoOtherWaits) {
  settings_.max_attempts = 8;
  settings_.deadlines.info = std::chrono::hours(1);
  settings_.crowded_info = milliseconds(1);
  fs::create_directories(directory());
  CountedSocket silent(directory() / "a-silent.sock");
  StartWatcher();
  for (const char* name : {"b.sock", "c.sock", "d.sock"}) {  // one after the other
    DeviceProfile profile = Profile();
    profile.socket = name;
    const auto plugin = Start(profile);
    ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
    ASSERT_TRUE(plugin->WaitForRegistrations(1, kPatience));
  }
  EXPECT_EQ(silent.Count(), 1U);
}

TEST_F(WatchedPlugins, NewSocketIsAskedBeforeThoseThatHaveNotAnswered) {
  constexpr size_t kSockets = 20;
  settings_.max_attempts = 1;
  settings_.deadlines.info = milliseconds(100);
  settings_.last_pause = settings_.first_pause;
  fs::create_directories(directory());
  std::vector<std::unique_ptr<CountedSocket>> silent;
  for (size_t i = 0; i < kSockets; ++i) {
    silent.push_back(std::make_unique<CountedSocket>(directory() / ("a-" + std::to_string(i))));
  }
  StartWatcher();
  const auto count = [&] {
    size_t sum = 0;
    for (const auto& socket : silent) sum += socket->Count();
    return sum;
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::ranges::any_of(silent, [](const auto& socket) { return socket->Count() == 0; })) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(5));
  }
  const auto plugin = Start(Profile());
  const size_t before = count();
  EXPECT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_LT(count() - before, kSockets / 2);
}

TEST_F(WatchedPlugins, NumberOfSocketsDoesNotChangeTheNumberOfThreads) {
  StartWatcher();
  const auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  const size_t before = CountThreads();
  std::vector<std::unique_ptr<testing::SilentSocket>> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(
        std::make_unique<testing::SilentSocket>(directory() / ("a-" + std::to_string(i))));
  }
  // Its registration shows that the attempts at the silent sockets have begun.
  const auto later = Start(Profile("example.com/nic"));
  ASSERT_TRUE(inventory_.WaitForHealthy("example.com/nic", {"gpu-0", "gpu-1"}));
  EXPECT_LE(CountThreads(), before + 10);  // gRPC's own threads come and go
}

TEST_F(WatchedPlugins, WatcherEndsAfterItsLoop) {
  fs::create_directories(directory());
  const testing::SilentSocket silent(directory() / "silent.sock");
  StartWatcher();
  const auto plugin = Start(Profile());
  ASSERT_TRUE(inventory_.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  loop_->Stop();
  watcher_.reset();
  EXPECT_TRUE(CanAllocate());
}

TEST_F(WatchedPlugins, PluginIsAwaitedUntilItsFirstListWithinThePatience) {
  StartWatcher({.deadlines = {}, .grace = kPatience, .patience = kPatience});
  registry_->Expect({kGpu});
  EXPECT_EQ(registry_->Awaited(kGpu)->message,
            "example.com/gpu: its device plugin has not registered yet");
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
