#include "rpc/grpc_status.h"

#include <array>
#include <cstddef>
#include <string>

#include "host/printable.h"

namespace alignd::rpc {
namespace {

grpc::StatusCode CodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kCorrupt:
      return grpc::StatusCode::DATA_LOSS;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

// UNAVAILABLE is also the status of a connection that failed: nothing was returned then.
std::string RemedyOf(ErrorCode code, std::string_view program) {
  const std::string name(program);
  if (code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded) {
    return "check that " + name + " runs, and see its log";
  }
  return "see in the log of " + name + " why it returned this";
}

ErrorCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::StatusCode::DATA_LOSS:
      return ErrorCode::kCorrupt;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:
      return ErrorCode::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kDeadlineExceeded;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

grpc::Status ToStatus(const Error& error) {
  return {CodeOf(error.code), host::Printable(error.Text())};
}

grpc::Status ToStatus(const Refusal& refusal) {
  return {grpc::StatusCode::FAILED_PRECONDITION,
          host::Printable(refusal.reason + ": " + refusal.message)};
}

std::string_view NameOf(grpc::StatusCode code) {
  // By number, which is the same in all of gRPC's languages.
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",
      "CANCELLED",
      "UNKNOWN",
      "INVALID_ARGUMENT",
      "DEADLINE_EXCEEDED",
      "NOT_FOUND",
      "ALREADY_EXISTS",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION",
      "ABORTED",
      "OUT_OF_RANGE",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DATA_LOSS",
      "UNAUTHENTICATED",
  };
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames.at(number) : "unknown gRPC status";
}

Error ToError(const grpc::Status& status, std::string_view context, std::string_view program) {
  const ErrorCode code = CodeOf(status.error_code());
  return Error{code, status.error_message(), RemedyOf(code, program)}.In(context);
}

}  // namespace alignd::rpc
