// Requests and answers of all methods of CRI 0.37, as Kubernetes' own code serialises them
// (tests/data/README.md), pass alignd in both directions.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"
#include "edge/captured_pods.h"
#include "future_fields.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using google::protobuf::util::MessageDifferencer;

constexpr char kOfTheTest[] = "of-the-test";  // metadata; alignd's own calls do not have it

std::filesystem::path RecordedCriDirectory() {
  return std::filesystem::path(ALIGND_SOURCE_DIR) / "tests" / "data" / "cri-0.37";
}

std::string RecordedCriFile(const std::string& name) {
  return testing::BytesOf(RecordedCriDirectory() / name);
}

std::vector<std::string> RecordedCriFiles() {
  const auto names = host::ListDirectory(RecordedCriDirectory());
  return names.ok() ? *names : std::vector<std::string>();
}

std::vector<std::string> RecordedCriMethods() {
  std::vector<std::string> methods;
  for (const std::string& name : RecordedCriFiles()) {
    if (name.ends_with(".req.bin")) methods.push_back(name.substr(0, name.find('.')));
  }
  return methods;
}

bool IsRecordedStream(const std::string& method) {
  return method.starts_with("Stream") || method == "GetContainerEvents";
}

// The recorded answer, or the messages of the stream.
std::vector<std::string> RecordedAnswers(const std::string& method) {
  if (!IsRecordedStream(method)) return {RecordedCriFile(method + ".resp.bin")};
  std::vector<std::string> messages;
  for (const char* const number : {".1", ".2", ".3"}) {
    messages.push_back(RecordedCriFile(method + number + ".bin"));
  }
  return messages;
}

std::string RecordedCriPath(const std::string& method) {
  const bool of_images = method.find("Image") != std::string::npos;
  return (of_images ? "/runtime.v1.ImageService/" : "/runtime.v1.RuntimeService/") + method;
}

template <typename Request>
Request Parsed(const std::string& bytes) {
  Request request;
  EXPECT_TRUE(request.ParseFromString(bytes)) << request.GetTypeName();
  return request;
}

// What differs, in the fields that alignd knows and in others; empty: nothing.
std::string Differences(const google::protobuf::Message& sent,
                        const google::protobuf::Message& received) {
  std::string differences;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  return differencer.Compare(sent, received) ? "" : differences;
}

// alignd before a runtime that gives the recorded answers.
class RecordedCri : public DaemonTest {
 protected:
  ~RecordedCri() override { StopDaemon(); }

  void StartBeside() {
    std::map<std::string, testing::RawMethod> methods;
    for (const std::string& method : RecordedCriMethods()) {
      methods[RecordedCriPath(method)] = [this, method](grpc::ServerContext& context,
                                                        testing::RawStream& stream) {
        grpc::ByteBuffer request;
        if (!stream.Read(&request)) return grpc::Status(grpc::StatusCode::INTERNAL, "no request");
        const bool is_own = !context.client_metadata().contains(kOfTheTest);
        return is_own ? AnswerAlignd(method, testing::ToText(request), stream)
                      : Answer(method, testing::ToText(request), stream);
      };
    }
    raw_ = std::make_unique<testing::RawServer>(RuntimeEndpoint(), methods);
    StartDaemon(
        StaticConfig("memoryManagerPolicy: Static\nsystemReserved: {memory: 1Gi}\n"
                     "reservedMemory:\n- numaNode: 0\n  limits: {memory: 1124Mi}\n"));
  }

  // Sends the recorded request. The caller must get the recorded answers. What the runtime got.
  std::string Say(const std::string& method) {
    SCOPED_TRACE(method);
    messages_read_ = 0;
    testing::RawCall call(client_, RecordedCriPath(method).c_str(),
                          [](grpc::ClientContext& context) {
                            context.set_deadline(std::chrono::system_clock::now() + kPatience);
                            context.AddMetadata(kOfTheTest, "yes");
                          });
    call.Write(RecordedCriFile(method + ".req.bin"));
    call.WritesDone();
    std::vector<std::string> answers;
    while (std::optional<std::string> answer = call.Read()) {
      answers.push_back(*std::move(answer));
      ++messages_read_;
    }
    const grpc::Status status = call.Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(answers == RecordedAnswers(method)) << answers.size() << " messages";
    const MutexLock lock(mutex_);
    return received_[method];
  }

  void ExpectSameBytes(const std::string& method) {
    EXPECT_TRUE(Say(method) == RecordedCriFile(method + ".req.bin")) << method;
  }

 private:
  grpc::Status Answer(const std::string& method, const std::string& request,
                      testing::RawStream& stream) {
    {
      const MutexLock lock(mutex_);
      received_[method] = request;
      if (method == "RunPodSandbox") {
        AddSandbox(Parsed<v1::RunPodSandboxRequest>(request).config(), "sandbox-of-uid-3");
      }
      if (method == "CreateContainer") {
        AddContainer(Parsed<v1::CreateContainerRequest>(request).config(), "sandbox-of-uid-3",
                     "container-of-uid-3");
      }
      if (method == "RestorePod") {
        const auto restore = Parsed<v1::RestorePodRequest>(request);
        AddSandbox(restore.config(), "sandbox-of-restored-3");
        for (const v1::ContainerConfig& config : restore.container_configs()) {
          AddContainer(config, "sandbox-of-restored-3",
                       config.metadata().name() + "-of-restored-3");
        }
      }
    }
    int sent = 0;
    for (const std::string& message : RecordedAnswers(method)) {
      stream.Write(testing::ToBuffer(message));
      ++sent;
      // Each message arrives before the next one is sent.
      if (IsRecordedStream(method) && !Eventually([&] { return messages_read_ >= sent; })) {
        return {grpc::StatusCode::INTERNAL, "the caller did not get the message"};
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status AnswerAlignd(const std::string& method, const std::string& request,
                            testing::RawStream& stream) {
    const auto answer = [&](const google::protobuf::Message& message) {
      stream.Write(testing::ToBuffer(message.SerializeAsString()));
      return grpc::Status::OK;
    };
    const MutexLock lock(mutex_);
    if (method == "Version") {
      v1::VersionResponse version;
      version.set_runtime_name("containerd");
      return answer(version);
    }
    if (method == "ListPodSandbox") return answer(sandboxes_);
    if (method == "ListContainers") return answer(containers_);
    if (method == "ContainerStatus") {
      const std::string id = Parsed<v1::ContainerStatusRequest>(request).container_id();
      v1::ContainerStatusResponse status;
      status.mutable_status()->set_id(id);
      *status.mutable_status()->mutable_resources()->mutable_linux() = resources_[id];
      (*status.mutable_info())["info"] =
          R"({"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/poduid-3/)" + id + R"("}}})";
      return answer(status);
    }
    if (method == "UpdateContainerResources") return answer(v1::UpdateContainerResourcesResponse());
    return {grpc::StatusCode::UNIMPLEMENTED, method};
  }

  void AddSandbox(const v1::PodSandboxConfig& config, const std::string& id) REQUIRES(mutex_) {
    v1::PodSandbox& sandbox = *sandboxes_.add_items();
    sandbox.set_id(id);
    *sandbox.mutable_metadata() = config.metadata();
  }
  void AddContainer(const v1::ContainerConfig& config, const std::string& sandbox,
                    const std::string& id) REQUIRES(mutex_) {
    v1::Container& container = *containers_.add_containers();
    container.set_id(id);
    container.set_pod_sandbox_id(sandbox);
    *container.mutable_metadata() = config.metadata();
    *container.mutable_labels() = config.labels();
    *container.mutable_annotations() = config.annotations();
    resources_[id] = config.linux().resources();
  }

  Mutex mutex_;
  std::map<std::string, std::string> received_ GUARDED_BY(mutex_);  // by method
  v1::ListPodSandboxResponse sandboxes_ GUARDED_BY(mutex_);
  v1::ListContainersResponse containers_ GUARDED_BY(mutex_);
  std::map<std::string, v1::LinuxContainerResources> resources_ GUARDED_BY(mutex_);
  std::atomic<int> messages_read_ = 0;
  std::unique_ptr<testing::RawServer> raw_;
};

// Checks the assignment, and removes it from both messages.
void TakeAssignment(const std::string& cpus, v1::ContainerConfig& sent,
                    v1::ContainerConfig& received) {
  const v1::LinuxContainerResources& resources = received.linux().resources();
  EXPECT_EQ(resources.cpuset_cpus(), cpus);
  EXPECT_EQ(resources.cpuset_mems(), "0");
  EXPECT_EQ(resources.cpu_quota(), -1);
  EXPECT_EQ(received.mutable_annotations()->erase(checkpoint::kMarkAnnotation), 1U);
  EXPECT_EQ(received.mutable_labels()->erase(checkpoint::kMarkLabel), 1U);
  for (v1::ContainerConfig* const config : {&sent, &received}) {
    ClearWhatIsAssigned(*config->mutable_linux()->mutable_resources());
  }
}

TEST_F(RecordedCri, CallsThatAreRelayedPassByteForByte) {
  const std::set<std::string> intercepted = {
      "RunPodSandbox",  "CreateContainer",           "StartContainer", "UpdateContainerResources",
      "RestorePod",     "UpdatePodSandboxResources", "StopContainer",  "RemoveContainer",
      "StopPodSandbox", "RemovePodSandbox",          "ContainerStatus"};
  StartBeside();
  int streams = 0;
  int others = 0;
  for (const std::string& method : RecordedCriMethods()) {
    if (intercepted.contains(method)) continue;
    ExpectSameBytes(method);
    ++(IsRecordedStream(method) ? streams : others);
  }
  EXPECT_EQ(streams, 7);
  EXPECT_EQ(others, 25);
}

TEST_F(RecordedCri, ToThoseOfAContainerTheAssignmentIsAddedAlone) {
  StartBeside();
  ExpectSameBytes("RunPodSandbox");
  auto sent = Parsed<v1::CreateContainerRequest>(RecordedCriFile("CreateContainer.req.bin"));
  auto received = Parsed<v1::CreateContainerRequest>(Say("CreateContainer"));
  TakeAssignment("1-3", *sent.mutable_config(), *received.mutable_config());
  EXPECT_EQ(Differences(sent, received), "");
  ExpectSameBytes("StartContainer");

  auto update = Parsed<v1::UpdateContainerResourcesRequest>(
      RecordedCriFile("UpdateContainerResources.req.bin"));
  EXPECT_EQ(update.linux().cpuset_cpus(), "0-27");
  auto updated = Parsed<v1::UpdateContainerResourcesRequest>(Say("UpdateContainerResources"));
  EXPECT_EQ(updated.linux().cpuset_cpus(), "1-3");
  EXPECT_EQ(updated.linux().cpuset_mems(), "0");
  EXPECT_EQ(updated.linux().cpu_quota(), -1);
  ClearWhatIsAssigned(*update.mutable_linux());
  ClearWhatIsAssigned(*updated.mutable_linux());
  EXPECT_EQ(Differences(update, updated), "");

  for (const char* const method : {"UpdatePodSandboxResources", "ContainerStatus", "StopContainer",
                                   "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"}) {
    ExpectSameBytes(method);
  }
}

TEST_F(RecordedCri, ToARestoredPodTheAssignmentsAreAddedAlone) {
  StartBeside();
  auto sent = Parsed<v1::RestorePodRequest>(RecordedCriFile("RestorePod.req.bin"));
  auto received = Parsed<v1::RestorePodRequest>(Say("RestorePod"));
  ASSERT_EQ(sent.container_configs_size(), 2);
  ASSERT_EQ(received.container_configs_size(), 2);
  TakeAssignment("1-3", *sent.mutable_container_configs(0), *received.mutable_container_configs(0));
  TakeAssignment("4-6", *sent.mutable_container_configs(1), *received.mutable_container_configs(1));
  EXPECT_EQ(Differences(sent, received), "");
  EXPECT_NE(State().find(R"("restored-3":{"a":"1-3","b":"4-6"})"), std::string::npos) << State();
}

// --- Names and numbers ---------------------------------------------------------------------------

// Notes each field that a recorded message has. Its texts contain the names of their fields.
class RecordedFields {
 public:
  void Note(const google::protobuf::Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
      if (size > 0 || (!field.is_repeated() && reflection.HasField(message, &field))) {
        seen_.insert(field.full_name());
      }
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM &&
          HasNumber(reflection.GetUnknownFields(message), field.number())) {
        seen_.insert(field.full_name());  // a value that no version has
      }
      if (field.is_map()) continue;
      const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      for (int j = 0; j < size; ++j) {
        if (is_message) Note(reflection.GetRepeatedMessage(message, &field, j));
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          CheckName(field, reflection.GetRepeatedString(message, &field, j));
        }
      }
      if (field.is_repeated() || !reflection.HasField(message, &field)) continue;
      if (is_message) Note(reflection.GetMessage(message, &field));
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        CheckName(field, reflection.GetString(message, &field));
      }
    }
  }

  // Of all messages of cri.proto.
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    const google::protobuf::FileDescriptor& file = *v1::VersionRequest::descriptor()->file();
    for (int i = 0; i < file.message_type_count(); ++i) {
      const Descriptor& type = *file.message_type(i);
      for (int j = 0; j < type.field_count(); ++j) {
        const std::string& name = type.field(j)->full_name();
        if (!seen_.contains(name)) missing.push_back(name);
      }
    }
    return missing;
  }
  int checked_names() const { return checked_names_; }

 private:
  static bool HasNumber(const UnknownFieldSet& unknown, int number) {
    for (int i = 0; i < unknown.field_count(); ++i) {
      const UnknownField& field = unknown.field(i);
      if (field.number() == number && field.type() == UnknownField::TYPE_VARINT) return true;
    }
    return false;
  }

  void CheckName(const FieldDescriptor& field, const std::string& text) {
    if (!text.ends_with("-\xc3\xbc") && !text.starts_with("/alignd/")) return;
    EXPECT_NE(text.find(field.name()), std::string::npos) << field.full_name() << ": " << text;
    ++checked_names_;
  }

  std::set<std::string> seen_;
  int checked_names_ = 0;
};

// A field of proto/runtime/v1/cri.proto with a wrong name, number or type would be missing here.
TEST(RecordedCriMessages, HaveEachFieldThatAligndNames) {
  RecordedFields fields;
  int messages = 0;
  for (const std::string& file : RecordedCriFiles()) {
    const std::string method = file.substr(0, file.find('.'));
    std::string type = method + (file.ends_with(".req.bin") ? "Request" : "Response");
    if (type == "GetContainerEventsRequest") type = "GetEventsRequest";
    if (type == "GetContainerEventsResponse") type = "ContainerEventResponse";
    const Descriptor* const descriptor =
        v1::VersionRequest::descriptor()->file()->pool()->FindMessageTypeByName("runtime.v1." +
                                                                                type);
    if (descriptor == nullptr) continue;  // only relayed
    const std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
    ASSERT_TRUE(message->ParseFromString(RecordedCriFile(file))) << file;
    fields.Note(*message);
    ++messages;
  }
  EXPECT_EQ(fields.Missing(), std::vector<std::string>());
  EXPECT_EQ(messages, 50);
  EXPECT_GT(fields.checked_names(), 200);
}

}  // namespace
}  // namespace alignd::daemon
