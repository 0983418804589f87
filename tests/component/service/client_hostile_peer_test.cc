// Answers that no library would send: frames of HTTP/2, byte by byte.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "edge/fake_tree.h"
#include "edge/frames_peer.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"

namespace alignd::service {
namespace {

using namespace testing::frames;

grpc::Status AnswerOf(const std::string& frames) {
  const testing::FakeTree tree;
  const std::string path = (tree.root() / "peer.sock").string();
  const FramesPeer peer(path, frames);
  const auto client = *Client::Dial(path, CallThread::kPlugins);
  ClientCall call({.timeout = std::chrono::seconds(20)});
  runtime::v1::VersionResponse response;
  return client->CallAndWait(call, "/s.S/Echo", runtime::v1::VersionRequest(), response);
}

// UNIMPLEMENTED would say that the peer does not have the method.
TEST(ClientOfAHostilePeer, ACompressedAnswerIsNoMissingMethod) {
  const grpc::Status status =
      AnswerOf(kOk + Frame(kData, kEndStream, 1, std::string("\1\0\0\0\1x", 6)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
  EXPECT_NE(status.error_message().find("compressed"), std::string::npos);
}

TEST(ClientOfAHostilePeer, EndsOfTheStreamHaveTheCodesOfGrpc) {
  using grpc::StatusCode;
  const std::pair<std::string, StatusCode> answers[] = {
      {Frame(kReset, 0, 1, Code(0)), StatusCode::INTERNAL},
      {Frame(kReset, 0, 1, Code(1)), StatusCode::INTERNAL},
      {Frame(kReset, 0, 1, Code(7)), StatusCode::UNAVAILABLE},
      {Frame(kReset, 0, 1, Code(8)), StatusCode::CANCELLED},
      {Frame(kReset, 0, 1, Code(11)), StatusCode::RESOURCE_EXHAUSTED},
      {Frame(kReset, 0, 1, Code(12)), StatusCode::PERMISSION_DENIED},
      {Frame(kReset, 0, 1, Code(2)), StatusCode::INTERNAL},
      // No stream of the call is left.
      {Frame(kGoAway, 0, 0, std::string(8, '\0')), StatusCode::UNAVAILABLE},
      // No status follows.
      {kOk + Frame(kData, kEndStream, 1, ""), StatusCode::UNKNOWN},
      {Frame(kHeaders, kEndHeaders | kEndStream, 1, "\x88"), StatusCode::UNKNOWN},
      // :status 404, with and without a status of gRPC.
      {Frame(kHeaders, kEndHeaders, 1, "\x8d"), StatusCode::UNIMPLEMENTED},
      {Frame(kHeaders, kEndHeaders, 1, "\x8d" + Header("grpc-status", "5")), StatusCode::NOT_FOUND},
      // An announced message of 4 GiB.
      {kOk + Frame(kData, 0, 1, std::string("\0\xff\xff\xff\xff", 5)),
       StatusCode::RESOURCE_EXHAUSTED},
      // Half a message.
      {kOk + Frame(kData, kEndStream, 1, std::string("\0\0\0\0\5x", 6)), StatusCode::UNKNOWN}};
  for (const auto& [frames, code] : answers) {
    const grpc::Status status = AnswerOf(frames);
    EXPECT_EQ(status.error_code(), code)
        << ::testing::PrintToString(frames) << ": " << status.error_message();
  }
}

TEST(ClientOfAHostilePeer, ReadsATextOfSixtyThousandBytes) {
  EXPECT_EQ(AnswerOf(kOk + LongTrailers(60'000)).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(ClientOfAHostilePeer, NamesTheLimitThatATextExceeds) {
  const grpc::Status status = AnswerOf(kOk + LongTrailers(75'000));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(),
            "the call was reset: the answer exceeds the 64 KiB of headers that alignd reads");
  // A peer in Go that knows the limit.
  EXPECT_EQ(AnswerOf(kOk + Frame(kReset, 0, 1, Code(2))).error_message(),
            "the call was reset: INTERNAL_ERROR; the peer's error text may exceed the 64 KiB of "
            "headers that alignd reads: see its log");
  EXPECT_EQ(AnswerOf(kOk + Frame(kReset, 0, 1, Code(8))).error_message(),
            "the call was reset: CANCEL");
}

}  // namespace
}  // namespace alignd::service
