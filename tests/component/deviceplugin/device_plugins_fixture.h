// A plugin directory with a registration server, a registry and simulated plugins.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/registration_server.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/loop_thread.h"
#include "simulator/device_plugin.h"
#include "sync/task_queue.h"

namespace alignd::deviceplugin {

inline constexpr char kGpu[] = "example.com/gpu";
inline constexpr std::chrono::seconds kPatience{20};

// A plugin directory with alignd's server in it.
class DevicePlugins : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(); }

  void StartServer() {
    registry_ = std::make_unique<PluginRegistry>(settings_, inventory_, background_);
    Result<std::unique_ptr<RegistrationServer>> server =
        RegistrationServer::Start(services_.loop(), directory(), *registry_);
    ASSERT_TRUE(server.ok()) << server.error().Text();
    server_ = *std::move(server);
  }

  void StopServer() {
    server_.reset();
    registry_.reset();
  }

  std::filesystem::path directory() const { return tree_.root(); }

  simulator::DeviceProfile Profile() const {
    simulator::DeviceProfile profile;
    profile.directory = directory();
    profile.resource = kGpu;
    profile.devices = {{"gpu-0", {0}, true}, {"gpu-1", {1}, true}};
    profile.envs = {{"VISIBLE", "{ids}"}};
    return profile;
  }

  static std::unique_ptr<simulator::DevicePlugin> Start(
      simulator::DeviceProfile profile,
      std::function<void(const Result<Done>&)> on_registration = {}) {
    Result<std::unique_ptr<simulator::DevicePlugin>> plugin =
        simulator::DevicePlugin::Start(std::move(profile), std::move(on_registration));
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

  // The outcome of the first registration, which must fail.
  static std::string RefusalOf(simulator::DeviceProfile profile) {
    std::promise<Result<Done>> first;
    bool set = false;
    const std::unique_ptr<simulator::DevicePlugin> plugin =
        Start(std::move(profile), [&](const Result<Done>& outcome) {
          if (!std::exchange(set, true)) first.set_value(outcome);
        });
    const Result<Done> outcome = first.get_future().get();
    return outcome.ok() ? "" : outcome.error().message;
  }

  PluginSettings settings_;
  testing::FakeTree tree_;
  testing::FakeInventory inventory_;
  TaskQueue background_{"background"};
  std::unique_ptr<PluginRegistry> registry_;
  const testing::LoopThread services_;
  std::unique_ptr<RegistrationServer> server_;
};

}  // namespace alignd::deviceplugin
