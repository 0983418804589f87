// Calls the Kubernetes API server over TLS.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "apiserver/api_credential.h"

namespace alignd::apiserver {

struct ApiAnswer {
  int status = 0;                                        // of HTTP
  std::string body = {};                                 // of an error: what the API server says
  std::optional<std::chrono::seconds> retry_after = {};  // how long to wait, if it says so
};

// "the API server answers 403: why", of an answer that is a failure.
std::string StatusText(const ApiAnswer& answer);
// Its remedy, where the call has no better one.
std::string StatusRemedy(const ApiAnswer& answer);

// One call of the API server. Errors: kUnavailable if there is no answer.
using ApiCall = std::function<Result<ApiAnswer>(const std::string& method, const std::string& path,
                                                const std::string& body)>;

// Calls with that credential, over one connection as long as it lasts, which the first call makes.
// The certificates and the token are read now: after they may have changed, the caller makes a new
// one. A call waits for `patience` for a connection to an address, and for each part of the answer.
// The server's certificate must be of the credential's CA, and name its host. Errors: kIo,
// kNotFound or kInvalidArgument if a file of the credential cannot be read or used. The calls'
// errors: kUnavailable.
inline constexpr std::chrono::seconds kApiPatience{5};
Result<ApiCall> ConnectTo(const ApiCredential& credential, const std::string& user_agent,
                          std::chrono::seconds patience = kApiPatience);

// Reads answers that are long or do not end: lists and watches.
class ApiReader {
 public:
  // The next part of the body; false: the call ends.
  using Receive = std::function<bool(std::string_view part)>;

  virtual ~ApiReader() = default;

  // GET. If the API server accepts the call (status 200), the body goes to `receive`. The body of
  // another answer is in the answer. One thread at a time.
  // Errors: kUnavailable: there is no answer, or it breaks off.
  virtual Result<ApiAnswer> Get(const std::string& path, const Receive& receive) = 0;

  // Ends the call that runs, if it has begun, and refuses later ones. Thread-safe.
  virtual void Stop() = 0;
};

// A reader with that credential, which is read now. A call waits for 5 s for a connection, and for
// `silence` for the next byte. Errors: as ConnectTo.
Result<std::unique_ptr<ApiReader>> ReaderFor(const ApiCredential& credential,
                                             const std::string& user_agent,
                                             std::chrono::seconds silence);

}  // namespace alignd::apiserver
