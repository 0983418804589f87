#include "deviceplugin/registration_server.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "deviceplugin/plugin_registry.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/loop_thread.h"
#include "edge/silent_socket.h"
#include "sync/task_queue.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;

TEST(RegistrationServer, RemovesStaleSocketsAndNothingElse) {
  const testing::FakeTree tree{{"kubelet_internal_checkpoint", "{}"}, {"sub/file", "x"}};
  // Sockets of dead processes.
  { const testing::SilentSocket stale(tree.root() / "old.sock"); }
  { const testing::SilentSocket stale(tree.root() / "kubelet.sock"); }
  ASSERT_TRUE(fs::is_socket(tree.root() / "old.sock"));
  testing::FakeInventory inventory;
  TaskQueue background("background");
  PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  const auto server = RegistrationServer::Start(services.loop(), tree.root(), registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();
  EXPECT_FALSE(fs::exists(tree.root() / "old.sock"));
  EXPECT_TRUE(fs::is_socket(tree.root() / "kubelet.sock"));
  EXPECT_TRUE(fs::exists(tree.root() / "kubelet_internal_checkpoint"));
  EXPECT_TRUE(fs::exists(tree.root() / "sub" / "file"));
}

TEST(RegistrationServer, DoesNotReplaceARunningServer) {
  const testing::FakeTree tree;
  const testing::SilentSocket plugin(tree.root() / "plugin.sock");
  const testing::SilentSocket kubelet(tree.root() / "kubelet.sock");
  testing::FakeInventory inventory;
  TaskQueue background("background");
  PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  const auto server = RegistrationServer::Start(services.loop(), tree.root(), registry);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(fs::exists(tree.root() / "plugin.sock"));
}

TEST(RegistrationServer, CreatesItsDirectory) {
  const testing::FakeTree tree;
  testing::FakeInventory inventory;
  TaskQueue background("background");
  PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  const auto server = RegistrationServer::Start(services.loop(), tree.root() / "a" / "b", registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();
  EXPECT_TRUE(fs::is_socket(tree.root() / "a" / "b" / "kubelet.sock"));
}

TEST(RegistrationServer, RefusesInvalidPaths) {
  testing::FakeInventory inventory;
  TaskQueue background("background");
  PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  EXPECT_EQ(RegistrationServer::Start(services.loop(), "relative/dir", registry).error().message,
            "bad socketPath, must be an absolute path: relative/dir/kubelet.sock");
  EXPECT_EQ(RegistrationServer::Start(services.loop(), "/" + std::string(100, 'a'), registry)
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace alignd::deviceplugin
