// Device plugins that send undecodable messages, over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocation/state_limits.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "edge/fake_inventory.h"
#include "edge/fake_tree.h"
#include "edge/raw_call.h"
#include "sync/task_queue.h"

namespace alignd::deviceplugin {
namespace {

using testing::RawMethod;
using testing::RawStream;
using testing::ToBuffer;

constexpr char kResource[] = "example.com/gpu";
constexpr char kUndecodable[] = "\xff\xff\xff\xff";
constexpr char kThatIs[] = "INTERNAL: 4 bytes (ff ff ff ff) cannot be decoded as ";

class UndecodablePlugin : public ::testing::Test {
 protected:
  UndecodablePlugin() {
    v1beta1::DevicePluginOptions options;
    options.set_get_preferred_allocation_available(true);
    options.set_pre_start_required(true);
    Answer("GetDevicePluginOptions", options.SerializeAsString());
    Answer("Allocate", "");
    Answer("GetPreferredAllocation", "");
    Answer("PreStartContainer", "");
    methods_["/v1beta1.DevicePlugin/ListAndWatch"] = [this](grpc::ServerContext& context,
                                                            RawStream& stream) {
      stream.Write(ToBuffer(List(true)));
      while (!context.IsCancelled()) {
        if (send_undecodable_.exchange(false)) {
          stream.Write(ToBuffer(kUndecodable));
          stream.Write(ToBuffer(List(false)));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      list_ended_.set_value();
      return grpc::Status::OK;
    };
  }
  ~UndecodablePlugin() override {
    registry_.reset();
    server_.reset();
  }

  // The plugin answers the call with these bytes; nullopt: with no message.
  void Answer(const std::string& name, const std::optional<std::string>& bytes) {
    methods_["/v1beta1.DevicePlugin/" + name] = [bytes](grpc::ServerContext&, RawStream& stream) {
      if (bytes) stream.Write(ToBuffer(*bytes));
      return grpc::Status::OK;
    };
  }

  Result<Done> Register() {
    registry_.reset();
    server_.reset();
    list_ended_ = {};
    const auto socket = tree_.root() / "gpu.sock";
    server_ = std::make_unique<testing::RawServer>(socket.string(), methods_);
    registry_ = std::make_unique<PluginRegistry>(settings_, inventory_, background_);
    std::promise<Result<Done>> reached;
    registry_->Register(kResource, socket, [&](Result<Done> result) { reached.set_value(result); });
    return reached.get_future().get();
  }

  std::string AllocateError() {
    std::promise<std::string> error;
    registry_->Allocate(kResource, {"gpu-0"}, [&](const Result<std::string>& result) {
      error.set_value(result.ok() ? "" : result.error().message);
    });
    return error.get_future().get();
  }

  static std::string List(bool healthy) {
    v1beta1::ListAndWatchResponse list;
    v1beta1::Device& device = *list.add_devices();
    device.set_id("gpu-0");
    device.set_health(healthy ? "Healthy" : "Unhealthy");
    return list.SerializeAsString();
  }

  const testing::FakeTree tree_;
  testing::FakeInventory inventory_;
  PluginSettings settings_;
  std::map<std::string, RawMethod> methods_;
  std::atomic<bool> send_undecodable_ = false;
  std::promise<void> list_ended_;  // by the registry
  std::unique_ptr<testing::RawServer> server_;
  TaskQueue background_{"background"};
  std::unique_ptr<PluginRegistry> registry_;
};

TEST_F(UndecodablePlugin, EndsWithAnUndecodableList) {
  settings_.grace = std::chrono::milliseconds(200);
  ASSERT_TRUE(Register().ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
  send_undecodable_ = true;
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {}));
  EXPECT_EQ(list_ended_.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(AllocateError(), "example.com/gpu: no device plugin");
  EXPECT_TRUE(inventory_.WaitUntil(
      [](const testing::FakeInventory::Resources& resources) { return resources.empty(); }));
}

TEST_F(UndecodablePlugin, ServesAgainAfterItsNextRegistration) {
  ASSERT_TRUE(Register().ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
  send_undecodable_ = true;
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {}));
  ASSERT_TRUE(Register().ok());
  EXPECT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
}

TEST_F(UndecodablePlugin, AllocatesNoDevices) {
  Answer("Allocate", kUndecodable);
  ASSERT_TRUE(Register().ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
  EXPECT_EQ(AllocateError(), "example.com/gpu: device plugin Allocate: " + std::string(kThatIs) +
                                 "v1beta1.AllocateResponse");
}

TEST_F(UndecodablePlugin, AnswerToAllocateIsReadUpToWhatIsKept) {
  // `more` bytes more than are kept.
  const auto answer = [](size_t more) {
    v1beta1::AllocateResponse response;
    std::string& value = (*response.add_container_responses()->mutable_envs())["LONG"];
    value.resize(allocation::kMaxAnswerBytes, 'v');
    value.resize(value.size() + allocation::kMaxAnswerBytes + more -
                     response.container_responses(0).ByteSizeLong(),
                 'v');
    EXPECT_EQ(response.container_responses(0).ByteSizeLong(), allocation::kMaxAnswerBytes + more);
    return response.SerializeAsString();
  };
  const auto error = [&](size_t more) {
    Answer("Allocate", answer(more));
    EXPECT_TRUE(Register().ok());
    EXPECT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
    return AllocateError();
  };
  EXPECT_EQ(error(0), "");
  EXPECT_NE(error(1).find("more than the 1048576 that alignd keeps"), std::string::npos);
  const std::string too_long = error(1000);
  EXPECT_TRUE(too_long.starts_with(
      "example.com/gpu: device plugin Allocate: RESOURCE_EXHAUSTED: received message larger than "
      "max (1049580 vs. 1048592)"))
      << too_long;
}

TEST_F(UndecodablePlugin, OtherAnswersAreReadUpToTheLimitOfAKubelet) {
  // A field that alignd does not know: number 1000, of 4 MiB.
  Answer("GetDevicePluginOptions", "\xc2\x3e\x80\x80\x80\x02" + std::string(4 << 20, 'u'));
  const Result<Done> registered = Register();
  ASSERT_FALSE(registered.ok());
  EXPECT_NE(registered.error().message.find("larger than max (4194310 vs. 4194304)"),
            std::string::npos)
      << registered.error().message;
  EXPECT_NE(registered.error().remedy.find("configure the plugin"), std::string::npos);
}

// The limit of gRPC in Go is that of alignd's lists.
TEST_F(UndecodablePlugin, RefusalOfALongRequestIsNotALongAnswer) {
  methods_["/v1beta1.DevicePlugin/GetDevicePluginOptions"] = [](grpc::ServerContext&, RawStream&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "grpc: received message larger than max (4194310 vs. 4194304)");
  };
  const Result<Done> registered = Register();
  ASSERT_FALSE(registered.ok());
  EXPECT_NE(registered.error().message.find("larger than max"), std::string::npos);
  EXPECT_EQ(registered.error().remedy, "check the plugin's pod and its log");
}

TEST_F(UndecodablePlugin, AllocatesNoDevicesWithoutAMessage) {
  Answer("Allocate", std::nullopt);
  ASSERT_TRUE(Register().ok());
  ASSERT_TRUE(inventory_.WaitForHealthy(kResource, {"gpu-0"}));
  EXPECT_EQ(AllocateError(),
            "example.com/gpu: device plugin Allocate: INTERNAL: success without an answer");
}

TEST_F(UndecodablePlugin, DoesNotRegister) {
  Answer("GetDevicePluginOptions", kUndecodable);
  const Result<Done> registered = Register();
  ASSERT_FALSE(registered.ok());
  EXPECT_EQ(registered.error().message, "example.com/gpu: device plugin GetDevicePluginOptions: " +
                                            std::string(kThatIs) + "v1beta1.DevicePluginOptions");
}

TEST_F(UndecodablePlugin, HasNoPreference) {
  v1beta1::PreferredAllocationResponse preferred;
  preferred.add_container_responses()->add_deviceids("gpu-0");
  const auto prefer = [&] {
    std::promise<std::optional<std::vector<std::string>>> answer;
    registry_->GetPreferredAllocation(
        {.resource = kResource, .available = {"gpu-0", "gpu-1"}, .must_include = {}, .size = 1},
        [&](std::optional<std::vector<std::string>> ids) { answer.set_value(std::move(ids)); });
    return answer.get_future().get();
  };
  Answer("GetPreferredAllocation", preferred.SerializeAsString());
  ASSERT_TRUE(Register().ok());
  EXPECT_EQ(prefer(), std::vector<std::string>{"gpu-0"});
  Answer("GetPreferredAllocation", preferred.SerializeAsString() + kUndecodable);
  ASSERT_TRUE(Register().ok());
  EXPECT_EQ(prefer(), std::nullopt);
}

TEST_F(UndecodablePlugin, FailsPreStartContainer) {
  Answer("PreStartContainer", kUndecodable);
  ASSERT_TRUE(Register().ok());
  std::promise<Result<Done>> answer;
  registry_->PreStartContainer(kResource, {"gpu-0"},
                               [&](Result<Done> result) { answer.set_value(result); });
  const Result<Done> result = answer.get_future().get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "example.com/gpu: device plugin PreStartContainer: " +
                                        std::string(kThatIs) + "v1beta1.PreStartContainerResponse");
}

}  // namespace
}  // namespace alignd::deviceplugin
