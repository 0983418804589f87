#include "service/client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "edge/fake_tree.h"
#include "edge/raw_call.h"

namespace alignd::service {
namespace {

constexpr char kMethod[] = "/v1beta1.DevicePlugin/Allocate";

class ClientAnswer : public ::testing::Test {
 protected:
  // Of a server that answers with these bytes; nullopt: with none.
  grpc::Status Call(const std::optional<std::string>& answer, const grpc::Status& status = {}) {
    const std::string socket = (tree_.root() / "peer.sock").string();
    const testing::RawServer server(
        socket, {{kMethod, [&](grpc::ServerContext&, testing::RawStream& stream) {
                    grpc::ByteBuffer request;
                    EXPECT_TRUE(stream.Read(&request));
                    asked_ = testing::ToText(request);
                    if (answer) stream.Write(testing::ToBuffer(*answer));
                    return status;
                  }}});
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids("gpu-0");
    response_.Clear();
    ClientCall call;
    grpc::Status ended = (*Client::Dial(socket))->CallAndWait(call, kMethod, request, response_);
    EXPECT_EQ(asked_, request.SerializeAsString());
    return ended;
  }

  const testing::FakeTree tree_;
  std::string asked_;
  v1beta1::AllocateResponse response_;
};

TEST_F(ClientAnswer, ReturnsTheAnswer) {
  v1beta1::AllocateResponse answer;
  (*answer.add_container_responses()->mutable_envs())["VISIBLE"] = "gpu-0";
  EXPECT_TRUE(Call(answer.SerializeAsString()).ok());
  EXPECT_EQ(response_.SerializeAsString(), answer.SerializeAsString());
}

// Two bytes for a part of a list become hundreds: a plugin's answer of 16 MiB took gigabytes.
TEST_F(ClientAnswer, AnswerOfTooManyPartsIsAnError) {
  std::string parts;
  while (parts.size() < 8 << 20) parts += std::string("\x0a\0", 2);
  const grpc::Status status = Call(parts);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("have so many parts"), std::string::npos);
  EXPECT_EQ(response_.container_responses_size(), 0);
}

TEST_F(ClientAnswer, TakesNoBytesForAnEmptyMessage) {
  EXPECT_TRUE(Call("").ok());
  EXPECT_EQ(response_.container_responses_size(), 0);
}

TEST_F(ClientAnswer, AnswerThatCannotBeDecodedIsAnError) {
  const grpc::Status status = Call("\x0a\x05\xff\xff\xff\xff\xff");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(),
            "7 bytes (0a 05 ff ff ff ff ff) cannot be decoded as v1beta1.AllocateResponse");
}

TEST_F(ClientAnswer, ShowsNoMoreThanTheBeginningOfALongAnswer) {
  EXPECT_EQ(Call(std::string(1000, '\x07')).error_message(),
            "1000 bytes (07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 ...) cannot be decoded as "
            "v1beta1.AllocateResponse");
}

TEST_F(ClientAnswer, SuccessWithoutAMessageIsAnError) {
  const grpc::Status status = Call(std::nullopt);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "success without an answer");
}

TEST_F(ClientAnswer, HandsOnThePeersStatus) {
  const grpc::Status status = Call(std::nullopt, {grpc::StatusCode::NOT_FOUND, "no such device"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such device");
}

TEST(ClientTimeout, ThePeerGetsWhatTheWaitForItHasLeft) {
  const testing::FakeTree tree;
  const std::string socket = (tree.root() / "peer.sock").string();
  ClientCall call({.timeout = std::chrono::seconds(20), .waits_for_peer = true});
  v1beta1::AllocateResponse response;
  const auto client = *Client::Dial(socket);
  std::promise<void> begins;
  std::future<grpc::Status> ended = std::async(std::launch::async, [&] {
    begins.set_value();
    return client->CallAndWait(call, kMethod, v1beta1::AllocateRequest(), response);
  });
  begins.get_future().get();
  ASSERT_EQ(ended.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  std::chrono::system_clock::duration left{};
  const testing::RawServer server(
      socket, {{kMethod, [&](grpc::ServerContext& context, testing::RawStream& stream) {
                  left = context.deadline() - std::chrono::system_clock::now();
                  stream.Write(testing::ToBuffer(""));
                  return grpc::Status();
                }}});
  EXPECT_TRUE(ended.get().ok());
  EXPECT_LT(left, std::chrono::milliseconds(19'700));
  EXPECT_GT(left, std::chrono::seconds(0));
}

}  // namespace
}  // namespace alignd::service
