#include "proxy/grpc_framing.h"

#include <gtest/gtest.h>

#include <string>

#include "rpc/unix_socket.h"

namespace alignd::proxy {
namespace {

using grpc::Status;
using grpc::StatusCode;

TEST(MessageReader, JoinsAMessageByteByByte) {
  const std::string bytes("\0\0\0\0\3abc", 8);
  MessageReader reader;
  for (const char byte : bytes) {
    EXPECT_FALSE(reader.IsComplete());
    ASSERT_TRUE(reader.Append({&byte, 1}).ok());
  }
  ASSERT_TRUE(reader.IsComplete());
  const std::string message = reader.TakeMessage();
  EXPECT_EQ(message, "abc");
  EXPECT_EQ(FrameOf(message), bytes);
  EXPECT_FALSE(reader.IsComplete());
}

TEST(MessageReader, AcceptsAnEmptyMessage) {
  MessageReader reader;
  ASSERT_TRUE(reader.Append(std::string(5, '\0')).ok());
  EXPECT_TRUE(reader.IsComplete());
  EXPECT_EQ(reader.TakeMessage(), "");
}

TEST(MessageReader, RefusesTooLongAMessageByItsPrefix) {
  const auto prefix = [](uint32_t size) {
    return std::string{'\0', static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8), static_cast<char>(size)};
  };
  MessageReader longest;
  EXPECT_TRUE(longest.Append(prefix(rpc::kMaxMessageBytes)).ok());
  MessageReader longer;
  const Status refused = longer.Append(prefix(rpc::kMaxMessageBytes + 1));
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "received message larger than max (16777217 vs. 16777216)");
}

TEST(MessageReader, RefusesACompressedMessageAndASecondOne) {
  MessageReader compressed;
  EXPECT_EQ(compressed.Append(std::string("\1\0\0\0\1", 5)).error_code(),
            StatusCode::UNIMPLEMENTED);
  MessageReader twice;
  EXPECT_EQ(twice.Append(std::string("\0\0\0\0\1a\0", 7)).error_code(), StatusCode::INTERNAL);
}

TEST(GrpcFraming, StatusIsTheSameAfterWritingAndParsing) {
  for (const Status& status : {Status::OK, Status(StatusCode::ABORTED, ""),
                               Status(StatusCode::FAILED_PRECONDITION, "100% n\xc3\xb6t\n%41",
                                      std::string("\0\xff", 2))}) {
    const Status again = StatusIn(TrailersWith(status));
    EXPECT_EQ(again.error_code(), status.error_code());
    EXPECT_EQ(again.error_message(), status.error_message());
    EXPECT_EQ(again.error_details(), status.error_details());
  }
}

TEST(GrpcFraming, MessageOfAStatusIsUtf8) {
  const Headers trailers = TrailersWith(Status(StatusCode::ABORTED, "no \xff"));
  EXPECT_EQ(trailers.Find("grpc-message"), "no %EF%BF%BD");
}

TEST(GrpcFraming, ParsesTrailersOfOtherImplementations) {
  const Status status = StatusIn({{":status", "200"},
                                  {"grpc-status", "5"},
                                  {"grpc-message", "no %22pod%22, 100%, %zz %"},
                                  {"grpc-status-details-bin", "CAU"}});
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no \"pod\", 100%, %zz %");
  EXPECT_EQ(status.error_details(), "\x08\x05");
}

TEST(GrpcFraming, ParsesTimeoutsInEveryUnit) {
  using namespace std::chrono_literals;
  EXPECT_EQ(ParseTimeout("2H"), 2h);
  EXPECT_EQ(ParseTimeout("3M"), 3min);
  EXPECT_EQ(ParseTimeout("4S"), 4s);
  EXPECT_EQ(ParseTimeout("119999m"), 119999ms);
  EXPECT_EQ(ParseTimeout("99999999u"), 99999999us);
  EXPECT_EQ(ParseTimeout("12345678n"), 12345us);
  EXPECT_EQ(ParseTimeout("0n"), 0us);
  EXPECT_EQ(ParseTimeout("99999999H"), 24h);  // can be added to a time
  for (const char* const odd :
       {"", "S", "5", "-5S", "+5S", " 5S", "5 S", "5s", "123456789S", "0x5S", "5SS"}) {
    EXPECT_EQ(ParseTimeout(odd), std::nullopt) << odd;
  }
}

TEST(GrpcFraming, AnswerWithoutAStatusIsNoSuccess) {
  EXPECT_EQ(StatusIn({}).error_code(), StatusCode::UNKNOWN);
  const Status status = StatusIn({{":status", "502"}, {"grpc-status", "zero"}});
  EXPECT_EQ(status.error_code(), StatusCode::UNKNOWN);
  EXPECT_NE(status.error_message().find("502"), std::string::npos);
}

TEST(GrpcFraming, TheHttpStatusCountsWhereThereIsNoOther) {
  const std::pair<const char*, StatusCode> cases[] = {
      {"200", StatusCode::UNKNOWN},         {"400", StatusCode::INTERNAL},
      {"401", StatusCode::UNAUTHENTICATED}, {"403", StatusCode::PERMISSION_DENIED},
      {"404", StatusCode::UNIMPLEMENTED},   {"429", StatusCode::UNAVAILABLE},
      {"500", StatusCode::UNKNOWN},         {"502", StatusCode::UNAVAILABLE},
      {"503", StatusCode::UNAVAILABLE},     {"504", StatusCode::UNAVAILABLE}};
  for (const auto& [http, code] : cases) {
    EXPECT_EQ(StatusIn({{":status", http}}).error_code(), code) << http;
    EXPECT_EQ(StatusIn({{":status", http}, {"grpc-status", "5"}}).error_code(),
              StatusCode::NOT_FOUND);
  }
}

}  // namespace
}  // namespace alignd::proxy
