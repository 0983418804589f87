// `alignsim devices` as a script drives it: options, signals and lines.
#include "simulator/devices_command.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <future>
#include <memory>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

#include "cri/allocate_response.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/registration_server.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/loop_thread.h"
#include "edge/process.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::simulator {
namespace {

// A text that one thread writes and another reads.
class SharedText final : public std::streambuf {
 public:
  std::string text() const {
    const MutexLock lock(mutex_);
    return text_;
  }

 protected:
  int overflow(int c) override {
    const MutexLock lock(mutex_);
    if (c != traits_type::eof()) text_ += static_cast<char>(c);
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const MutexLock lock(mutex_);
    text_.append(text, static_cast<size_t>(size));
    return size;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ GUARDED_BY(mutex_);
};

constexpr char kGpu[] = "example.com/gpu";

// The action of the program for these arguments.
Action Parse(std::vector<std::string> arguments) {
  CLI::App app("alignsim");
  Action action;
  AddDevicesCommand(app, action);
  arguments.insert(arguments.begin(), "devices");
  app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  return action;
}

TEST(DevicesCommand, ServesUntilTheStopSignal) {
  const testing::FakeTree tree;
  testing::FakeInventory inventory;
  TaskQueue background("background");
  deviceplugin::PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  const auto server =
      deviceplugin::RegistrationServer::Start(services.loop(), tree.root(), registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();

  const Action action =
      Parse({"--dir", tree.root().string(), "--resource", kGpu, "--device", "gpu-0:numa=0,1",
             "--device", "gpu-1:unhealthy", "--env", "VISIBLE={ids}", "--device-node",
             "/dev/null:/dev/gpu{index}", "--cdi", "example.com/gpu={id}", "--prefer"});
  SharedText text;
  std::ostream out(&text);
  Result<Done> done = Error{};
  std::thread thread([&] { done = action(out); });
  // The signals are for that thread alone: the other threads of this process do not block them.
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {"gpu-0"}));
  EXPECT_EQ(inventory.resources().at(kGpu).devices.at("gpu-0").numa, (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(inventory.resources().at(kGpu).prefers_allocation);

  std::promise<Result<std::string>> answer;
  registry.Allocate(kGpu, {"gpu-0", "gpu-1"},
                    [&](Result<std::string> result) { answer.set_value(std::move(result)); });
  const Result<std::string> bytes = answer.get_future().get();
  EXPECT_TRUE(bytes.ok());
  if (bytes.ok()) {
    const auto merged = cri::MergeResponses({{kGpu, *bytes}});
    EXPECT_EQ(merged->envs.at("VISIBLE"), "gpu-0,gpu-1");
    EXPECT_EQ(merged->devices.at(1).container_path, "/dev/gpu1");
    EXPECT_EQ(merged->cdi_devices.at(0), "example.com/gpu=gpu-0");
  }

  pthread_kill(thread.native_handle(), SIGUSR2);
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  pthread_kill(thread.native_handle(), SIGUSR1);
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {}));
  EXPECT_TRUE(testing::WaitUntil([&] {
    return text.text().find("registered example.com/gpu\n") != std::string::npos;
  })) << text.text();
  pthread_kill(thread.native_handle(), SIGTERM);
  thread.join();
  EXPECT_TRUE(done.ok()) << done.error().Text();
}

TEST(DevicesCommand, RefusesTextsThatItCannotRead) {
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"--device", "a:numa=x"}, {"--env", "x"}, {"--mount", "/a"}, {"--annotation", "=x"}}) {
    std::vector<std::string> arguments = {"--dir", "/nowhere", "--resource", kGpu};
    arguments.insert(arguments.end(), bad.begin(), bad.end());
    std::ostringstream out;
    const Result<Done> done = Parse(arguments)(out);
    ASSERT_FALSE(done.ok()) << bad[1];
    EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument) << bad[1];
  }
}

TEST(DevicesCommand, ObeysLines) {
  const testing::FakeTree tree;
  testing::FakeInventory inventory;
  TaskQueue background("background");
  deviceplugin::PluginRegistry registry({}, inventory, background);
  const testing::LoopThread services;
  const auto server =
      deviceplugin::RegistrationServer::Start(services.loop(), tree.root(), registry);
  ASSERT_TRUE(server.ok()) << server.error().Text();
  DeviceProfile profile;
  profile.directory = tree.root();
  profile.resource = kGpu;
  profile.devices = {{"gpu-0", {}, true}, {"gpu-1", {}, true}};
  const auto plugin = DevicePlugin::Start(profile);
  ASSERT_TRUE(plugin.ok()) << plugin.error().Text();

  EXPECT_TRUE(Obey("unhealthy gpu-0", **plugin).ok());
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {"gpu-1"}));
  EXPECT_TRUE(Obey("healthy", **plugin).ok());
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {"gpu-0", "gpu-1"}));
  EXPECT_EQ(Obey("healthy gpu-7", **plugin).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Obey("dance", **plugin).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Obey("end-lists", **plugin).ok());
  EXPECT_TRUE(inventory.WaitForHealthy(kGpu, {}));
}

}  // namespace
}  // namespace alignd::simulator
