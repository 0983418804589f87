// Requests and answers that are not what the protocol says. A request that cannot be decided never
// reaches the runtime, which may read it differently.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "cri/handlers.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// INVALID_ARGUMENT, for a request of so many bytes that cannot be parsed.
grpc::Status Malformed(const google::protobuf::MessageLite& request, size_t bytes);

// Whether `bytes` were parsed. If not, the call has ended with Malformed.
template <typename Request>
bool ReadRequest(const std::string& bytes, Request& request, const Decide& decide) {
  if (request.ParseFromString(bytes)) return true;
  decide(Malformed(request, bytes.size()));
  return false;
}

// Whether the runtime's answer was parsed. If not, a warning is logged. An answer that would take
// more memory than rpc::kMaxParsedAnswerBytes counts as malformed.
bool ReadAnswer(const std::string& bytes, google::protobuf::Message& answer);

// Errors: kInvalidArgument if `text` is not UTF-8, has control characters or is longer than
// allocation::kMaxNameBytes. `what` names it.
Result<Done> RequireText(std::string_view what, const std::string& text);
// Likewise for the UID, the name and the namespace of the pod.
Result<Done> RequirePodNames(const runtime::v1::PodSandboxMetadata& pod);

}  // namespace alignd::cri
