#include "rpc/grpc_status.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace alignd::rpc {
namespace {

TEST(ToStatus, EachErrorHasItsCode) {
  const std::pair<ErrorCode, grpc::StatusCode> cases[] = {
      {ErrorCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
      {ErrorCode::kNotFound, grpc::StatusCode::NOT_FOUND},
      {ErrorCode::kCorrupt, grpc::StatusCode::DATA_LOSS},
      {ErrorCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
      {ErrorCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
      {ErrorCode::kIo, grpc::StatusCode::INTERNAL},
      {ErrorCode::kInternal, grpc::StatusCode::INTERNAL},
  };
  for (const auto& [code, expected] : cases) {
    const grpc::Status status = ToStatus(Error{code, "read x: gone", "look elsewhere"});
    EXPECT_EQ(status.error_code(), expected);
    EXPECT_EQ(status.error_message(), "read x: gone; look elsewhere");
  }
}

TEST(ToStatus, PutsTheReasonOfARefusalInFront) {
  const grpc::Status status = ToStatus(Refusal{"SMTAlignmentError", "3 is not a multiple of 2"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "SMTAlignmentError: 3 is not a multiple of 2");
}

TEST(ToStatus, EscapesTextsOfOtherPrograms) {
  EXPECT_EQ(ToStatus(Error{ErrorCode::kIo, "plugin: \x1b[31m\n\xff", "wait"}).error_message(),
            "plugin: \\u001b[31m\\n\\xff; wait");
  EXPECT_EQ(ToStatus(Refusal{"Reason", "pod a\u202eb"}).error_message(), "Reason: pod a\\u202eb");
}

TEST(ToError, IsTheInverseOfToStatus) {
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kCorrupt,
        ErrorCode::kUnavailable, ErrorCode::kDeadlineExceeded, ErrorCode::kInternal}) {
    const Error error = ToError(ToStatus(Error{code, "m"}), "list containers", "the runtime");
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(error.message, "list containers: m");
    EXPECT_NE(error.remedy.find("the runtime"), std::string::npos) << error.remedy;
  }
}

TEST(ToError, SaysOnlyOfAnAnswerThatItWasReturned) {
  const auto remedy_of = [](grpc::StatusCode code) {
    return ToError({code, "m"}, "runtime: Version", "the container runtime").remedy;
  };
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED,
                          grpc::StatusCode::CANCELLED}) {
    EXPECT_EQ(remedy_of(code), "check that the container runtime runs, and see its log");
  }
  for (const auto code : {grpc::StatusCode::UNKNOWN, grpc::StatusCode::INTERNAL,
                          grpc::StatusCode::NOT_FOUND, grpc::StatusCode::INVALID_ARGUMENT}) {
    EXPECT_EQ(remedy_of(code), "see in the log of the container runtime why it returned this");
  }
}

TEST(NameOf, NamesEveryCode) {
  EXPECT_EQ(NameOf(grpc::StatusCode::OK), "OK");
  EXPECT_EQ(NameOf(grpc::StatusCode::DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
  EXPECT_EQ(NameOf(grpc::StatusCode::RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(NameOf(grpc::StatusCode::UNIMPLEMENTED), "UNIMPLEMENTED");
  EXPECT_EQ(NameOf(grpc::StatusCode::UNAVAILABLE), "UNAVAILABLE");
  EXPECT_EQ(NameOf(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQ(NameOf(static_cast<grpc::StatusCode>(17)), "unknown gRPC status");
}

}  // namespace
}  // namespace alignd::rpc
