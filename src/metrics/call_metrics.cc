#include "metrics/call_metrics.h"

#include <algorithm>
#include <string>

#include "rpc/grpc_status.h"

namespace alignd::metrics {
namespace {

// 50 µs to 105 s, by a factor of 4 at a time up to 0.8 s; then times for which kubelets wait.
std::vector<double> AddedBounds() {
  return {0.00005, 0.0002, 0.0008, 0.0032, 0.0128, 0.0512, 0.2048, 0.8192, 3, 10, 30, 120};
}

}  // namespace

size_t MethodOf(std::string_view path) {
  const size_t other = kMethods.size() - 1;
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return other;
  const std::string_view service = path.substr(0, slash);
  const bool is_cri = service.starts_with("/runtime.v1") &&
                      (service.ends_with(".RuntimeService") || service.ends_with(".ImageService"));
  if (!is_cri) return other;
  const auto known = std::lower_bound(kMethods.begin(), kMethods.end() - 1, path.substr(slash + 1));
  const bool is_known = known != kMethods.end() - 1 && *known == path.substr(slash + 1);
  return is_known ? static_cast<size_t>(known - kMethods.begin()) : other;
}

CallMetrics::OfMethod::OfMethod() : added(AddedBounds()) {}

CallMetrics::CallMetrics() : methods_(kMethods.size()) {}

void CallMetrics::Ended(const proxy::CallReport& report) {
  ended_.Add();
  OfMethod& method = methods_[MethodOf(report.method)];
  const auto code = static_cast<size_t>(report.code);
  method.ended[code < kCodes ? code : static_cast<size_t>(grpc::StatusCode::UNKNOWN)].Add();
  if (report.added) method.added.Observe(*report.added);
}

void CallMetrics::Collect(Families& families) const {
  families.Histograms("alignd_call_added_seconds",
                      "What alignd adds to an intercepted call: from the whole request to the "
                      "decision, by method. It includes waits for plugins and the disk.");
  for (size_t i = 0; i < kMethods.size(); ++i) {
    prometheus::ClientMetric metric = methods_[i].added.Collect();
    if (metric.histogram.sample_count == 0) continue;
    families.Add(std::move(metric), {{"method", std::string(kMethods[i])}});
  }
  const uint64_t ended = ended_.value();
  const uint64_t begun = begun_.value();
  families.Counters("alignd_calls_total", "Calls that have ended, by method and gRPC code.");
  for (size_t i = 0; i < kMethods.size(); ++i) {
    for (size_t code = 0; code < kCodes; ++code) {
      const uint64_t count = methods_[i].ended[code].value();
      if (count == 0) continue;
      families.Add(count, {{"code", std::string(rpc::NameOf(static_cast<grpc::StatusCode>(code)))},
                           {"method", std::string(kMethods[i])}});
    }
  }
  families.Gauges("alignd_calls_in_progress", "Calls that have begun and not ended.");
  // Calls begin and end while the two are read.
  families.Add(begun > ended ? begun - ended : 0);
}

}  // namespace alignd::metrics
