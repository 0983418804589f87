// Faulty answers of the runtime, over a real socket.
#include "reconcile/runtime_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "edge/fake_tree.h"
#include "edge/raw_call.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"

namespace alignd::reconcile {
namespace {

namespace v1 = runtime::v1;

constexpr char kUndecodable[] = "\xff\xff\xff\xff";
constexpr char kThatIs[] = "4 bytes (ff ff ff ff) cannot be decoded as runtime.v1.";

// A runtime with one sandbox and one container.
class RuntimeAnswers : public ::testing::Test {
 protected:
  RuntimeAnswers() {
    v1::ListPodSandboxResponse sandboxes;
    v1::PodSandbox& sandbox = *sandboxes.add_items();
    sandbox.set_id("s");
    sandbox.mutable_metadata()->set_uid("pod");
    v1::ListContainersResponse containers;
    v1::Container& container = *containers.add_containers();
    container.set_id("c");
    container.set_pod_sandbox_id("s");
    container.mutable_metadata()->set_name("app");
    container.set_state(v1::CONTAINER_RUNNING);
    answers_["Version"] = v1::VersionResponse().SerializeAsString();
    answers_["ListPodSandbox"] = sandboxes.SerializeAsString();
    answers_["ListContainers"] = containers.SerializeAsString();
    answers_["UpdateContainerResources"] = "";
  }
  ~RuntimeAnswers() override {
    client_.reset();
    server_.reset();
  }

  void Start() {
    std::map<std::string, testing::RawMethod> methods;
    for (const auto& [name, answer] : answers_) {
      methods["/runtime.v1.RuntimeService/" + name] =
          [answer = answer](grpc::ServerContext&, testing::RawStream& stream) {
            stream.Write(testing::ToBuffer(answer));
            return grpc::Status::OK;
          };
    }
    const std::string socket = (tree_.root() / "runtime.sock").string();
    server_ = std::make_unique<testing::RawServer>(socket, methods);
    client_ =
        std::make_unique<RuntimeClient>(*service::Client::Dial(socket), std::chrono::seconds(20));
  }

  Result<RuntimeListing> List() {
    std::promise<Result<RuntimeListing>> listed;
    client_->List([&](Result<RuntimeListing> listing) { listed.set_value(std::move(listing)); });
    return listed.get_future().get();
  }
  std::string ListError() {
    Start();
    const Result<RuntimeListing> listing = List();
    return listing.ok() ? "" : listing.error().message;
  }

  const testing::FakeTree tree_;
  std::map<std::string, std::string> answers_;
  std::unique_ptr<testing::RawServer> server_;
  std::unique_ptr<RuntimeClient> client_;
};

TEST_F(RuntimeAnswers, AreListed) {
  Start();
  const Result<RuntimeListing> listing = List();
  ASSERT_TRUE(listing.ok()) << listing.error().message;
  ASSERT_EQ(listing->containers.size(), 1U);
  EXPECT_EQ(listing->sandboxes.size(), 1U);
}

TEST_F(RuntimeAnswers, HaveTheCpusThatASchedulerHasDecided) {
  v1::ListPodSandboxResponse sandboxes;
  ASSERT_TRUE(sandboxes.ParseFromString(answers_["ListPodSandbox"]));
  const auto add = [&](const std::string& id, const std::string& status) {
    v1::PodSandbox sandbox = sandboxes.items(0);
    sandbox.set_id(id);
    (*sandbox.mutable_annotations())["scheduling.koordinator.sh/resource-status"] = status;
    *sandboxes.add_items() = sandbox;
  };
  add("decided", R"({"cpuset":"2-3"})");
  add("malformed", R"({"cpuset":)");
  answers_["ListPodSandbox"] = sandboxes.SerializeAsString();
  Start();
  const Result<RuntimeListing> listing = List();
  ASSERT_TRUE(listing.ok()) << listing.error().message;
  ASSERT_EQ(listing->sandboxes.size(), 3U);
  EXPECT_EQ(listing->sandboxes[0].decided.ToString(), "");
  EXPECT_EQ(listing->sandboxes[1].decided.ToString(), "2-3");
  EXPECT_EQ(listing->sandboxes[2].decided.ToString(), "");
}

// One string that is not UTF-8 hides neither its sandbox nor any other. Ids are used for calls of
// the runtime; UIDs and names are shown.
TEST_F(RuntimeAnswers, NeedNotBeUtf8) {
  v1::ListPodSandboxResponse sandboxes;
  ASSERT_TRUE(sandboxes.ParseFromString(answers_["ListPodSandbox"]));
  v1::PodSandbox odd = sandboxes.items(0);
  odd.set_id("odd\xff");
  odd.mutable_metadata()->set_uid("\xc0\xafuid");
  odd.mutable_metadata()->set_name("n\xff");
  odd.mutable_metadata()->set_namespace_("s\x1b");
  (*odd.mutable_annotations())["k\xff"] = "v\xff";
  (*odd.mutable_labels())["k\xff"] = "v\xff";
  odd.set_runtime_handler("h\xff");
  *sandboxes.add_items() = odd;
  answers_["ListPodSandbox"] = sandboxes.SerializeAsString();
  v1::ListContainersResponse containers;
  ASSERT_TRUE(containers.ParseFromString(answers_["ListContainers"]));
  v1::Container odd_container = containers.containers(0);
  odd_container.set_id("c\xff");
  odd_container.set_pod_sandbox_id(odd.id());
  odd_container.mutable_metadata()->set_name("a\xff");
  odd_container.mutable_image()->set_image("\xff");
  odd_container.set_image_ref("\xff");
  (*odd_container.mutable_annotations())["k\xff"] = "v\xff";
  *containers.add_containers() = odd_container;
  answers_["ListContainers"] = containers.SerializeAsString();
  Start();
  const Result<RuntimeListing> listing = List();
  ASSERT_TRUE(listing.ok()) << listing.error().message;
  ASSERT_EQ(listing->sandboxes.size(), 2U);
  EXPECT_EQ(listing->sandboxes[0].pod_uid, "pod");
  EXPECT_EQ(listing->sandboxes[1].id, "odd\xff");
  EXPECT_EQ(listing->sandboxes[1].pod_uid, R"(\xc0\xafuid)");
  EXPECT_EQ(listing->sandboxes[1].name, R"(n\xff)");
  EXPECT_EQ(listing->sandboxes[1].name_space, R"(s\x1b)");
  EXPECT_EQ(listing->sandboxes[1].handler, R"(h\xff)");
  ASSERT_EQ(listing->containers.size(), 2U);
  EXPECT_EQ(listing->containers[1].id, "c\xff");
  EXPECT_EQ(listing->containers[1].key, (ContainerKey{R"(\xc0\xafuid)", R"(a\xff)"}));
}

// A stopped client answers before List returns.
TEST_F(RuntimeAnswers, AfterStopAreErrors) {
  Start();
  client_->Stop();
  EXPECT_FALSE(List().ok());
}

TEST_F(RuntimeAnswers, UndecodableContainersAreAnError) {
  answers_["ListContainers"] = kUndecodable;
  EXPECT_EQ(ListError(),
            "runtime: ListContainers: " + std::string(kThatIs) + "ListContainersResponse");
}

TEST_F(RuntimeAnswers, UndecodableSandboxesAreAnError) {
  answers_["ListPodSandbox"] = kUndecodable;
  EXPECT_EQ(ListError(),
            "runtime: ListPodSandbox: " + std::string(kThatIs) + "ListPodSandboxResponse");
}

TEST_F(RuntimeAnswers, UndecodableVersionIsAnError) {
  answers_["Version"] = kUndecodable;
  EXPECT_EQ(ListError(), "runtime: Version: " + std::string(kThatIs) + "VersionResponse");
}

TEST_F(RuntimeAnswers, UndecodableAnswerToAnUpdateIsAnError) {
  answers_["UpdateContainerResources"] = kUndecodable;
  Start();
  std::promise<Result<Done>> updated;
  client_->UpdateCpuSet("c", CpuSet{1}, {},
                        [&](Result<Done> result) { updated.set_value(result); });
  const Result<Done> result = updated.get_future().get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "runtime: UpdateContainerResources: " + std::string(kThatIs) +
                                        "UpdateContainerResourcesResponse");
}

}  // namespace
}  // namespace alignd::reconcile
