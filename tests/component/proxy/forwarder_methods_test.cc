// Every method of CRI up to cri-api 0.36, in both versions, and one of a future version: the
// runtime and the caller get the same bytes as without a forwarder.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "edge/process.h"
#include "forwarder_fixture.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::proxy {
namespace {

using grpc::Status;
using grpc::StatusCode;

enum class Kind { kUnary, kServerStream };

struct Method {
  const char* service;
  const char* name;
  Kind kind = Kind::kUnary;
};

std::ostream& operator<<(std::ostream& out, const Method& method) {
  return out << method.service << "_" << method.name;
}

constexpr char kRuntime[] = "RuntimeService";
constexpr char kImage[] = "ImageService";

const std::vector<Method>& Methods() {
  static const std::vector<Method> methods = {
      {kRuntime, "Version"},
      {kRuntime, "RunPodSandbox"},
      {kRuntime, "StopPodSandbox"},
      {kRuntime, "RemovePodSandbox"},
      {kRuntime, "PodSandboxStatus"},
      {kRuntime, "ListPodSandbox"},
      {kRuntime, "StreamPodSandboxes", Kind::kServerStream},
      {kRuntime, "CreateContainer"},
      {kRuntime, "StartContainer"},
      {kRuntime, "StopContainer"},
      {kRuntime, "RemoveContainer"},
      {kRuntime, "ListContainers"},
      {kRuntime, "StreamContainers", Kind::kServerStream},
      {kRuntime, "ContainerStatus"},
      {kRuntime, "UpdateContainerResources"},
      {kRuntime, "ReopenContainerLog"},
      {kRuntime, "ExecSync"},
      {kRuntime, "Exec"},
      {kRuntime, "Attach"},
      {kRuntime, "PortForward"},
      {kRuntime, "ContainerStats"},
      {kRuntime, "ListContainerStats"},
      {kRuntime, "StreamContainerStats", Kind::kServerStream},
      {kRuntime, "PodSandboxStats"},
      {kRuntime, "ListPodSandboxStats"},
      {kRuntime, "StreamPodSandboxStats", Kind::kServerStream},
      {kRuntime, "UpdateRuntimeConfig"},
      {kRuntime, "Status"},
      {kRuntime, "CheckpointContainer"},
      {kRuntime, "GetContainerEvents", Kind::kServerStream},
      {kRuntime, "ListMetricDescriptors"},
      {kRuntime, "ListPodSandboxMetrics"},
      {kRuntime, "StreamPodSandboxMetrics", Kind::kServerStream},
      {kRuntime, "RuntimeConfig"},
      {kRuntime, "UpdatePodSandboxResources"},
      {kImage, "ListImages"},
      {kImage, "StreamImages", Kind::kServerStream},
      {kImage, "ImageStatus"},
      {kImage, "PullImage"},
      {kImage, "RemoveImage"},
      {kImage, "ImageFsInfo"},
      // Not in any cri-api yet.
      {kRuntime, "TeleportPod", Kind::kServerStream},
      {"TimeService", "Travel", Kind::kServerStream},
  };
  return methods;
}

Kind KindOf(const std::string& service, const std::string& name) {
  for (const Method& method : Methods()) {
    if (service == method.service && name == method.name) return method.kind;
  }
  ADD_FAILURE() << service << "/" << name << " is not in the list";
  return Kind::kUnary;
}

// Every method of the .proto file must be in the list, with the right kind.
TEST(ForwarderMethods, ListHasTheMethodsOfTheProtoFile) {
  const google::protobuf::FileDescriptor* file = runtime::v1::VersionRequest::descriptor()->file();
  ASSERT_EQ(file->service_count(), 2);
  for (int i = 0; i < file->service_count(); ++i) {
    for (int j = 0; j < file->service(i)->method_count(); ++j) {
      const google::protobuf::MethodDescriptor& method = *file->service(i)->method(j);
      EXPECT_FALSE(method.client_streaming()) << method.full_name();
      EXPECT_EQ(KindOf(file->service(i)->name(), method.name()) == Kind::kServerStream,
                method.server_streaming())
          << method.full_name();
    }
  }
}

// The table of cri-api 0.36: rows "| 7 | `StreamPodSandboxes` | server stream | 0.36 | observe |".
TEST(ForwarderMethods, ListHasTheMethodsOfTheApi) {
  const char* const shared = std::getenv("ALIGND_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "ALIGND_SHARED is not set";
  std::istringstream facts(testing::ReadText(std::string(shared) + "/wire-facts.md"));
  std::string service;
  size_t found = 0;
  for (std::string line; std::getline(facts, line);) {
    for (const char* const name : {kRuntime, kImage}) {
      if (line.find(std::string("| # | ") + name) == 0) service = name;
    }
    if (line.find("## 2.") == 0) break;
    const size_t open = line.find("| `");
    const size_t close = line.find('`', open + 3);
    if (service.empty() || line.empty() || line.find("| # |") == 0 || open == std::string::npos) {
      continue;
    }
    ++found;
    const bool streams = line.find("| server stream |") != std::string::npos;
    const std::string name = line.substr(open + 3, close - open - 3);
    EXPECT_EQ(KindOf(service, name) == Kind::kServerStream, streams) << name;
  }
  EXPECT_EQ(found, Methods().size() - 2);  // without the two of a future version
}

// What one side of a call received from the other.
using Seen = std::multimap<std::string, std::string>;

Seen Custom(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  Seen seen;
  for (const auto& [key, value] : metadata) {
    const std::string name(key.data(), key.size());
    if (name.starts_with("x-")) seen.emplace(name, std::string(value.data(), value.size()));
  }
  return seen;
}

const Seen kSent = {{"x-sent", "1"}, {"x-sent", "2"}, {"x-sent-bin", std::string("\0\xff", 2)}};
const Seen kInitial = {{"x-first", "a"}, {"x-first-bin", std::string("\xfe\0", 2)}};
const Seen kTrailing = {{"x-last", "b"}, {"x-last", "c"}, {"x-last-bin", std::string("\0\1", 2)}};

class EveryMethod : public ForwarderTest,
                    public ::testing::WithParamInterface<std::tuple<const char*, Method>> {
 protected:
  ~EveryMethod() override {  // callbacks of the backend use the members
    caller_.reset();
    StopForwarder(std::chrono::milliseconds(0));
    backend_.reset();
  }

  std::string Path() const {
    const auto& [version, method] = GetParam();
    return std::string("/runtime.") + version + "." + method.service + "/" + method.name;
  }
  int Answers() const { return std::get<1>(GetParam()).kind == Kind::kUnary ? 1 : 3; }

  void Start() {
    StartBackend({{Path(), [this](grpc::ServerContext& context, RawStream& stream) {
                     grpc::ByteBuffer request;
                     heard_ = stream.Read(&request) ? ToText(request) : "nothing";
                     grpc::ByteBuffer more;
                     closed_ = !stream.Read(&more);
                     metadata_ = Custom(context.client_metadata());
                     left_ = context.deadline() - std::chrono::system_clock::now();
                     for (const auto& [key, value] : kInitial) {
                       context.AddInitialMetadata(key, value);
                     }
                     for (const auto& [key, value] : kTrailing) {
                       context.AddTrailingMetadata(key, value);
                     }
                     for (int i = 0; i < (fault_.ok() ? Answers() : 0); ++i) {
                       stream.Write(ToBuffer(kAnswer + std::to_string(i)));
                     }
                     return fault_;
                   }}});
    StartForwarder();
  }

  std::unique_ptr<RawCall> Begin() {
    auto call = std::make_unique<RawCall>(caller_, path_.c_str(), [](grpc::ClientContext& context) {
      SetPatience(context);
      for (const auto& [key, value] : kSent) context.AddMetadata(key, value);
    });
    call->Write(kRequest);
    call->WritesDone();
    return call;
  }

  // Bytes that are no protobuf message.
  const std::string kRequest = std::string("\xff\xff\0request\x80", 11);
  const std::string kAnswer = std::string("\0\xff answer \x80", 11);
  const std::string path_ = Path();
  Status fault_;
  std::string heard_;
  bool closed_ = false;
  Seen metadata_;
  std::chrono::system_clock::duration left_{};
};

TEST_P(EveryMethod, PassesWithMetadataDeadlineAndMessages) {
  Start();
  const auto call = Begin();
  for (int i = 0; i < Answers(); ++i) EXPECT_EQ(call->Read(), kAnswer + std::to_string(i));
  EXPECT_EQ(call->Read(), std::nullopt);
  const Status status = call->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(heard_, kRequest);
  EXPECT_TRUE(closed_);
  EXPECT_EQ(metadata_, kSent);
  EXPECT_LT(left_, kPatience + std::chrono::seconds(2));  // the timeout is rounded up in the header
  EXPECT_GT(left_, kPatience / 4);
  EXPECT_EQ(Custom(call->context().GetServerInitialMetadata()), kInitial);
  EXPECT_EQ(Custom(call->context().GetServerTrailingMetadata()), kTrailing);
}

TEST_P(EveryMethod, FailsAsTheRuntimeFails) {
  fault_ = Status(StatusCode::ABORTED, "fa\xc3\xbclt\n100%", std::string("\x08\x0a\0\xff", 4));
  Start();
  const auto call = Begin();
  EXPECT_EQ(call->Read(), std::nullopt);
  const Status status = call->Finish();
  EXPECT_EQ(status.error_code(), fault_.error_code());
  EXPECT_EQ(status.error_message(), fault_.error_message());
  EXPECT_EQ(status.error_details(), fault_.error_details());  // grpc-status-details-bin
  EXPECT_EQ(Custom(call->context().GetServerTrailingMetadata()), kTrailing);
}

INSTANTIATE_TEST_SUITE_P(Cri, EveryMethod,
                         ::testing::Combine(::testing::Values("v1", "v1alpha2"),
                                            ::testing::ValuesIn(Methods())),
                         [](const auto& param) {
                           std::ostringstream name;
                           name << std::get<0>(param.param) << "_" << std::get<1>(param.param);
                           return name.str();
                         });

}  // namespace
}  // namespace alignd::proxy
