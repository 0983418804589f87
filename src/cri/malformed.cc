#include "cri/malformed.h"

#include <spdlog/spdlog.h>

#include "allocation/state_limits.h"
#include "host/log_event.h"
#include "host/printable.h"
#include "rpc/grpc_status.h"
#include "rpc/parsed_bytes.h"

namespace alignd::cri {

grpc::Status Malformed(const google::protobuf::MessageLite& request, size_t bytes) {
  return rpc::ToStatus(
      Error{ErrorCode::kInvalidArgument,
            "malformed request: " + std::to_string(bytes) + " bytes are not a " +
                request.GetTypeName() + ". alignd has not sent it to the runtime",
            "see whether the caller's version of CRI is one that this alignd supports"});
}

bool ReadAnswer(const std::string& bytes, google::protobuf::Message& answer) {
  using rpc::kMaxParsedAnswerBytes;
  const bool fits = rpc::ParsedBytes(bytes, *answer.GetDescriptor(), kMaxParsedAnswerBytes) <=
                    kMaxParsedAnswerBytes;
  if (fits && answer.ParseFromString(bytes)) return true;
  static host::LineLimit limit("malformed answers of the runtime");
  if (!limit.Allow()) return false;
  spdlog::warn("malformed answer of the runtime: {} bytes are not a {}", bytes.size(),
               answer.GetTypeName());
  return false;
}

Result<Done> RequireText(std::string_view what, const std::string& text) {
  if (host::IsText(text)) return allocation::RequireName(what, text);
  return Error{ErrorCode::kInvalidArgument,
               std::string(what) + " \"" + host::Escaped(text) +
                   "\" is not UTF-8, or has control characters",
               "create the pod with another one"};
}

Result<Done> RequirePodNames(const runtime::v1::PodSandboxMetadata& pod) {
  Result<Done> checked = RequireText("pod UID", pod.uid());
  if (checked.ok()) checked = RequireText("pod name", pod.name());
  if (checked.ok()) checked = RequireText("namespace", pod.namespace_());
  return checked;
}

}  // namespace alignd::cri
