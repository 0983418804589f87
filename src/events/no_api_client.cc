// In place of api_client.cc in a static program, which has no TLS.
#include "events/api_client.h"

namespace alignd::events {
namespace {

Error NoTls() {
  return {ErrorCode::kInvalidArgument,
          "this static program has no TLS, and cannot call the API server",
          "use the alignctl of a package, or give the output of kubectl get "
          "noderesourcetopologies,nodes,pods -A -o json with --nodes"};
}

}  // namespace

Result<ApiCall> ConnectTo(const ApiCredential&) { return NoTls(); }

Result<std::unique_ptr<ApiReader>> ReaderFor(const ApiCredential&, const std::string&,
                                             std::chrono::seconds) {
  return NoTls();
}

}  // namespace alignd::events
