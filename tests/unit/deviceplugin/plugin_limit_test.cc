// The number of plugins that alignd serves, and of lines that they can cause in the log.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "deviceplugin/checks.h"
#include "deviceplugin/plugin_log.h"
#include "deviceplugin/plugin_registry.h"
#include "edge/fake_inventory.h"

namespace alignd::deviceplugin {
namespace {

// Answers at once, and announces nothing.
class IdleConnection final : public PluginConnection {
 public:
  void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) override {
    done(v1beta1::DevicePluginOptions());
  }
  void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)>,
             std::function<void(Error)>) override {}
  void Allocate(const std::vector<std::string>&,
                std::function<void(Result<v1beta1::AllocateResponse>)>) override {}
  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery&, std::chrono::milliseconds,
      std::function<void(Result<v1beta1::PreferredAllocationResponse>)>) override {}
  void PreStartContainer(const std::vector<std::string>&,
                         std::function<void(Result<Done>)>) override {}
  void Close() override {}
};

TEST(PluginLimit, FurtherPluginsAreNotRegistered) {
  testing::FakeInventory inventory;
  TaskQueue background("background");
  PluginRegistry registry(
      PluginSettings(), inventory, background,
      [](const std::string&,
         const std::filesystem::path&) -> Result<std::unique_ptr<PluginConnection>> {
        return std::unique_ptr<PluginConnection>(std::make_unique<IdleConnection>());
      });
  const auto add = [&](const std::string& resource) {
    Result<Done> result = Error{};
    registry.Register(resource, "/plugin.sock", [&](const Result<Done>& done) { result = done; });
    return result;
  };
  for (size_t i = 0; i < kMaxPlugins; ++i) {
    EXPECT_TRUE(add("example.com/r" + std::to_string(i)).ok());
  }
  const Result<Done> further = add("example.com/further");
  ASSERT_FALSE(further.ok());
  EXPECT_EQ(further.error().message,
            "example.com/further: 256 other plugins are registered or are being registered, and "
            "alignd serves 256");
  EXPECT_NE(further.error().remedy, "");
  EXPECT_TRUE(add("example.com/r7").ok());  // a plugin may come again
}

// A registration that begins while another one is being checked.
TEST(PluginLimit, RegistrationsAtTheSameTimeDoNotExceedIt) {
  testing::FakeInventory inventory;
  TaskQueue background("background");
  std::function<void(const std::string&)> meanwhile;
  PluginRegistry registry(
      PluginSettings(), inventory, background,
      [&](const std::string& resource,
          const std::filesystem::path&) -> Result<std::unique_ptr<PluginConnection>> {
        if (meanwhile) std::exchange(meanwhile, {})(resource);
        return std::unique_ptr<PluginConnection>(std::make_unique<IdleConnection>());
      });
  const auto add = [&](const std::string& resource) {
    Result<Done> result = Error{};
    registry.Register(resource, "/plugin.sock", [&](const Result<Done>& done) { result = done; });
    return result;
  };
  for (size_t i = 0; i + 1 < kMaxPlugins; ++i) {
    ASSERT_TRUE(add("example.com/r" + std::to_string(i)).ok());
  }
  Result<Done> last = Error{};
  meanwhile = [&](const std::string&) { last = add("example.com/last"); };
  const Result<Done> further = add("example.com/further");
  EXPECT_TRUE(last.ok()) << last.error().Text();
  ASSERT_FALSE(further.ok());
  EXPECT_EQ(further.error().code, ErrorCode::kUnavailable);
}

// A device can become unhealthy and healthy again hundreds of times in a second.
TEST(PluginLimit, ChangesOfDevicesAreNotLoggedWithoutLimit) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  for (int i = 0; i < 1000; ++i) LogPluginNews("example.com/r", "2 devices, 1 healthy");
  const std::string lines = log.str();
  EXPECT_LE(std::ranges::count(lines, '\n'), host::LineLimit::kBurst + 50);
  host::LineLimit::ReportAll();
  spdlog::set_default_logger(before);
  EXPECT_NE(log.str().find("registrations and devices of device plugins"), std::string::npos)
      << log.str().substr(lines.size());
}

}  // namespace
}  // namespace alignd::deviceplugin
