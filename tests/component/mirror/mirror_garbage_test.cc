// Plugins that answer with garbage, flood, or never end: they harm only containers that request
// their devices, and alignd does not grow.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.grpc.pb.h"
#include "edge/alignd_command.h"
#include "edge/process.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

std::string RandomBytes(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string ListOf(int count, bool healthy, const std::string& prefix = "device-") {
  v1beta1::ListAndWatchResponse list;
  for (int i = 0; i < count; ++i) {
    v1beta1::Device& device = *list.add_devices();
    device.set_id(prefix + std::to_string(i));
    device.set_health(healthy || i % 3 != 0 ? "Healthy" : "Unhealthy");
    device.mutable_topology()->add_nodes()->set_id(i % 2);
  }
  return list.SerializeAsString();
}

// The messages of one call, by number; nullopt ends it.
using Message = std::optional<std::string>;
using Script = std::function<Message(const std::string& method, uint64_t message)>;

Message Once(uint64_t message, std::string bytes) {
  return message == 0 ? Message(std::move(bytes)) : std::nullopt;
}

// A gRPC server that answers with the bytes of a script.
class RawPlugin {
 public:
  RawPlugin(const std::string& socket, Script script) : service_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.SetMaxSendMessageSize(-1);
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~RawPlugin() { server_->Shutdown(std::chrono::system_clock::now()); }

  uint64_t messages() const { return service_.messages; }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(std::string method, const Script& script, std::atomic<uint64_t>& messages)
        : method_(std::move(method)), script_(script), messages_(messages) {
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (ok) Next();
    }
    void OnWriteDone(bool ok) override {
      if (ok) {
        Next();
      } else {
        End(grpc::Status::CANCELLED);
      }
    }
    void OnCancel() override { End(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }

   private:
    void Next() {
      const Message message = script_(method_, sent_++);
      if (!message) return End(grpc::Status::OK);
      ++messages_;
      const grpc::Slice slice(*message);
      answer_ = grpc::ByteBuffer(&slice, 1);
      StartWrite(&answer_);
    }
    void End(const grpc::Status& status) {
      if (!ended_.exchange(true)) Finish(status);
    }

    const std::string method_;
    const Script& script_;
    std::atomic<uint64_t>& messages_;
    uint64_t sent_ = 0;
    std::atomic<bool> ended_ = false;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer answer_;
  };

  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(Script script) : script_(std::move(script)) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      const std::string& path = context->method();
      return new Call(path.substr(path.rfind('/') + 1), script_, messages);  // deletes itself
    }
    std::atomic<uint64_t> messages = 0;

   private:
    const Script script_;
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

// A socket on which there is noise instead of gRPC.
class Noise {
 public:
  explicit Noise(const std::string& path) : listening_(testing::ListenUnix(path)) {
    thread_ = std::thread([this] {
      for (uint64_t seed = 1;; ++seed) {
        const int peer = accept(listening_.fd(), nullptr, nullptr);
        if (peer < 0) return;
        const std::string bytes = RandomBytes(seed, 65'536);
        (void)send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        close(peer);
      }
    });
  }
  ~Noise() {
    shutdown(listening_.fd(), SHUT_RDWR);
    thread_.join();
  }

 private:
  const host::Descriptor listening_;
  std::thread thread_;
};

class MirrorGarbage : public MirrorTest {
 protected:
  MirrorGarbage() { patience_ = milliseconds(1); }  // for plugins that never send a list

  Options DaemonOptions() const override {
    Options options = MirrorTest::DaemonOptions();
    options.plugin_connect_timeout = seconds(2);
    options.pods_api_endpoint.clear();
    options.log_level = "warn";
    return options;
  }

  std::string PluginSocket(const std::string& name) const {
    return StateDir() / "device-plugins" / (name + ".sock");
  }
  grpc::Status Register(const std::string& name) const {
    v1beta1::RegisterRequest request;
    request.set_version("v1beta1");
    request.set_endpoint(name + ".sock");
    request.set_resource_name("example.com/" + name);
    v1beta1::Empty nothing;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    return v1beta1::Registration::NewStub(*simulator::Dial(PluginSocket("kubelet")))
        ->Register(&context, request, &nothing);
  }
  RawPlugin& Add(const std::string& name, Script script) {
    plugins_.push_back(std::make_unique<RawPlugin>(PluginSocket(name), std::move(script)));
    const grpc::Status registered = Register(name);
    EXPECT_TRUE(registered.ok()) << name << ": " << registered.error_message();
    return *plugins_.back();
  }

  std::unique_ptr<testing::Process> alignd_;
  std::vector<std::unique_ptr<RawPlugin>> plugins_;
};

TEST_F(MirrorGarbage, HarmsOnlyContainersThatRequestItsDevices) {
  tree_.Write({"config.yaml", StaticConfig()});
  StartRuntime();
  alignd_ = std::make_unique<testing::Process>(
      testing::AligndCommand(ALIGND_PROGRAM, DaemonOptions()), tree_.root() / "alignd.log");
  client_ = *simulator::Dial(DaemonOptions().listen);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(PluginSocket("kubelet")); }));
  StartGpus();
  StartKubelet();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience)) << alignd_->Log();

  const auto lists = [](std::function<Message(uint64_t)> list) {
    return [list = std::move(list)](const std::string& method, uint64_t message) {
      return method == "ListAndWatch" ? list(message) : Once(message, "");
    };
  };
  const Noise noise(PluginSocket("noise"));
  EXPECT_FALSE(Register("noise").ok());
  Add("bytes", lists([](uint64_t message) { return RandomBytes(message, 4096); }));
  Add("long", lists([](uint64_t) { return std::string(17 << 20, 'x'); }));
  Add("many", lists([many = ListOf(100'001, true)](uint64_t) { return many; }));
  Add("odd", [](const std::string& method, uint64_t message) {
    if (method == "GetDevicePluginOptions") return Once(message, "");
    if (method != "ListAndWatch") return Once(message, RandomBytes(message, 1024));
    if (message == 0) return Message(ListOf(4, true));
    std::this_thread::sleep_for(milliseconds(100));
    return Message(ListOf(4, true));
  });
  RawPlugin& storm =
      Add("storm", lists([all = ListOf(10'000, true), some = ListOf(10'000, false)](
                             uint64_t message) { return message % 2 == 0 ? all : some; }));

  // From here on the plugins misbehave. Pods without their devices are served as before.
  ASSERT_TRUE(Eventually([&] { return storm.messages() > 20; }));
  milliseconds longest{0};
  long before = 0;
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    const std::string uid = "pod" + std::to_string(round);
    const auto began = std::chrono::steady_clock::now();
    const Created pod = RunPod(uid, 2, round % 2);
    longest = std::max(longest, std::chrono::duration_cast<milliseconds>(
                                    std::chrono::steady_clock::now() - began));
    ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
    EXPECT_EQ(GpusOf(pod.seen), kubelet_->IdsOf({uid, "app"}, kGpu));
    RemovePod(uid, pod.sandbox);
    if (round == kRounds / 2) before = alignd_->ResidentKb();
  }
  const long after = alignd_->ResidentKb();
  std::cout << "longest pod " << longest.count() << " ms, " << storm.messages()
            << " lists of the storm, resident " << before << " kB, then " << after << " kB\n";
  EXPECT_LT(longest, kPatience / 2);
  EXPECT_GT(before, 0);
  EXPECT_LT(after, before + 512 * 1024);

  // The refusal names the plugin.
  for (const std::string resource : {"bytes", "long", "many", "odd", "noise"}) {
    const std::string uid = "wants-" + resource;
    const mirror::Annotation marker =
        mirror::FormatMarker({"example.com/" + resource, {"device-1"}});
    v1::ContainerConfig container = Shared();
    (*container.mutable_annotations())[marker.key] = marker.value;
    const v1::PodSandboxConfig pod = BurstablePod(uid);
    const auto created = Create(Run(pod), pod, container);
    EXPECT_FALSE(created.status.ok()) << resource;
    EXPECT_NE(created.status.error_message().find("example.com/" + resource), std::string::npos)
        << created.status.error_message();
  }
  // And it is still the same alignd.
  EXPECT_EQ(kill(alignd_->pid(), 0), 0);
  EXPECT_TRUE(RunPod("last", 2, 3).status.ok());
}

}  // namespace
}  // namespace alignd::daemon
