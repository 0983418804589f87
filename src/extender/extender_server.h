// Serves the extender over HTTP or HTTPS.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "extender/extender.h"
#include "metrics/listen_address.h"

namespace alignd::extender {

struct TlsFiles {
  std::string certificate;  // PEM; empty: HTTP
  std::string key;
  std::string client_ca;  // callers must have a certificate of it; empty: any caller
};

// POST /filter and /prioritize, GET /healthz, /readyz and /metrics. Callers are trusted as
// kube-scheduler is: a caller that reaches the address can keep places on nodes.
class ExtenderServer {
 public:
  static constexpr size_t kMaxRequestBytes = size_t{64} << 20;

  // Whether a call about a pod that IsConcerned is answered now: asked when it comes, and again
  // when its answer is sent, which must have the same number. Other pods go on in any case.
  using Permits = std::function<Result<uint64_t>()>;

  // Listens. `extender` outlives the server, and what the functions use does. `more_metrics` gives
  // further families of /metrics. Without `permits`, all calls are answered. Before a pod is
  // refused by all nodes, the changes of `settle` are awaited, and it is decided again:
  // kube-scheduler asks as soon as it has heard of a change, and then not again for minutes.
  // Errors: kUnavailable if the address cannot be used; kInvalidArgument: a certificate or key that
  // cannot be read.
  static Result<std::unique_ptr<ExtenderServer>> Start(
      const metrics::ListenAddress& address, const TlsFiles& tls, Extender& extender,
      std::function<std::string()> more_metrics = {}, Permits permits = {},
      std::chrono::milliseconds settle = {});
  virtual ~ExtenderServer() = default;

  virtual uint16_t port() const = 0;
};

}  // namespace alignd::extender
