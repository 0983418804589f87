// Calls that do not concern alignd have the same answers with and without it.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "edge/raw_call.h"
#include "real_node.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::testing {
namespace {

namespace v1 = runtime::v1;

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

struct Answers {
  RawAnswer direct;
  RawAnswer through;
};

Answers CallBoth(const std::string& runtime, const std::string& alignd, const char* method,
                 const google::protobuf::MessageLite& request) {
  const std::string bytes = request.SerializeAsString();
  return {CallUnary(*simulator::Dial(runtime), method, bytes, SetDeadline),
          CallUnary(*simulator::Dial(alignd), method, bytes, SetDeadline)};
}

void ExpectEqual(const Answers& answers, const char* what) {
  EXPECT_EQ(answers.direct.status.error_code(), answers.through.status.error_code()) << what;
  EXPECT_EQ(answers.direct.status.error_message(), answers.through.status.error_message()) << what;
  EXPECT_EQ(answers.direct.message, answers.through.message) << what;
}

TEST_F(RealNode, OtherCallsPassUnchanged) {
  const std::string id = Run(SharedPod());
  ASSERT_NE(id, "");
  const auto both = [this](const char* method, const google::protobuf::MessageLite& request) {
    return CallBoth(RuntimeSocket(), Socket(), method, request);
  };

  const Answers version = both("/runtime.v1.RuntimeService/Version", v1::VersionRequest());
  EXPECT_TRUE(version.direct.status.ok());
  ExpectEqual(version, "Version");
  ExpectEqual(both("/runtime.v1.RuntimeService/Status", v1::StatusRequest()), "Status");

  v1::ExecSyncRequest exec;
  exec.set_container_id(id);
  for (const char* const word :
       {"sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo problem >&2; exit 3"}) {
    exec.add_cmd(word);
  }
  const Answers executed = both("/runtime.v1.RuntimeService/ExecSync", exec);
  ASSERT_TRUE(executed.direct.status.ok()) << executed.direct.status.error_message();
  EXPECT_GT(executed.direct.message->size(), 200000U);
  ExpectEqual(executed, "ExecSync");

  v1::ImageStatusRequest image;
  image.mutable_image()->set_image("localhost/busybox:1");
  image.set_verbose(true);
  ExpectEqual(both("/runtime.v1.ImageService/ImageStatus", image), "ImageStatus");

  v1::ContainerStatusRequest unknown;
  unknown.set_container_id("unknown");
  const Answers refused = both("/runtime.v1.RuntimeService/ContainerStatus", unknown);
  EXPECT_FALSE(refused.direct.status.ok());
  ExpectEqual(refused, "ContainerStatus of an unknown container");
}

TEST_F(RealNode, ImagesAreListedUnchanged) {
  const Answers answers = CallBoth(RuntimeSocket(), Socket(), "/runtime.v1.ImageService/ListImages",
                                   v1::ListImagesRequest());
  ASSERT_TRUE(answers.direct.status.ok() && answers.through.status.ok());
  // The runtime lists them in no particular order.
  const auto images = [](const std::string& bytes) {
    v1::ListImagesResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    std::set<std::string> set;
    for (const v1::Image& image : response.images()) set.insert(image.SerializeAsString());
    return set;
  };
  EXPECT_EQ(images(*answers.direct.message).size(), 2U);
  EXPECT_EQ(images(*answers.direct.message), images(*answers.through.message));
}

}  // namespace
}  // namespace alignd::testing
