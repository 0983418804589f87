#include "daemon/monitoring.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/facts.h"
#include "host/sysfs_parts.h"
#include "metrics/liveness.h"
#include "metrics/metrics_page.h"
#include "picture/live_page.h"

namespace alignd::daemon {
namespace {

// How long a probe waits for the threads. A kubelet's probe waits 1 s if its pod does not say more;
// a thread that is busy for longer than that is not healthy for a probe either.
constexpr std::chrono::milliseconds kAnswersWithin{900};

constexpr char kNoPageYet[] = "the first page is being computed; load it again\n";

metrics::HttpAnswer Text(int status, std::string text) {
  return {.status = status, .text = std::move(text)};
}

metrics::HttpAnswer Alive(metrics::Liveness& liveness) {
  std::string problems;
  for (const std::string& thread : liveness.Silent()) {
    problems += "thread " + thread + " does not answer\n";
  }
  return problems.empty() ? Text(200, "ok") : Text(500, problems);
}

metrics::HttpAnswer Ready(const MonitoredParts& parts) {
  if (parts.is_stopping) return Text(503, "alignd is stopping\n");
  if (!parts.reconciler.Recovered()) {
    return Text(503, "the runtime has not been listed since alignd started\n");
  }
  return Text(200, "ok");
}

metrics::PageSources SourcesOf(const MonitoredParts& parts) {
  return {.version = ALIGND_VERSION,
          .node = parts.node,
          .events = parts.events,
          .snapshot = [parts] { return parts.allocation.snapshot(); },
          .conditions = [parts] { return parts.conditions.Report(); },
          .repairs = [parts] { return parts.conditions.Repairs(); },
          .waits = [parts] { return parts.allocation.waits(); },
          .waiting_pods = [parts] { return parts.allocation.WaitingPods(); },
          .queues =
              [parts] {
                return std::map<std::string, size_t>{
                    {"background", parts.background.size()},
                    {"decision", parts.allocation.QueuedDecisions()},
                    {"disk", parts.allocation.QueuedWrites()},
                    {"io", parts.io.size()},
                    {"refusals", parts.allocation.QueuedRefusals()}};
              },
          .runtime_listed = [parts] { return parts.reconciler.Recovered(); },
          .disconnected = parts.disconnected,
          .started = ProcessStarted()};
}

void AddLivePage(const MonitoredParts& parts, metrics::HttpPages& pages) {
  const auto page = std::make_shared<picture::LivePage>(picture::PageSources{
      .machine = parts.node.machine,
      .parts =
          [root = parts.root, machine = parts.node.machine] {
            return root.empty() ? host::MachineParts() : host::ReadParts(root, machine);
          },
      .status = parts.status});
  pages["/"] = [page] {
    const auto texts = page->Newest();
    if (!texts) return Text(503, kNoPageYet);
    return metrics::HttpAnswer{.text = texts->html, .content_type = "text/html; charset=utf-8"};
  };
  pages["/topology.svg"] = [page] {
    const auto texts = page->Newest();
    if (!texts) return Text(503, kNoPageYet);
    return metrics::HttpAnswer{.text = texts->svg, .content_type = "image/svg+xml"};
  };
  pages["/" + std::string(picture::kScriptName)] = [] {
    return metrics::HttpAnswer{.text = picture::kScript,
                               .content_type = "text/javascript; charset=utf-8"};
  };
  pages["/" + std::string(picture::kStyleName)] = [] {
    return metrics::HttpAnswer{.text = picture::kStyle, .content_type = "text/css; charset=utf-8"};
  };
}

}  // namespace

std::unique_ptr<metrics::HttpServer> StartMonitoring(
    const std::string& address, const MonitoredParts& parts,
    std::map<std::string, Watchdog::Post> threads) {
  const Result<std::optional<metrics::ListenAddress>> where = metrics::ParseListenAddress(address);
  if (where.ok() && !*where) return nullptr;
  metrics::HttpServer::Settings settings;
  settings.failed = [&conditions = parts.conditions](const Error& error) {
    conditions.MetricsFailed(error);
  };
  if (!where.ok()) {
    settings.failed(where.error().In("--metrics-address"));
    return nullptr;
  }
  settings.serving = [&conditions = parts.conditions](const metrics::ListenAddress& served) {
    spdlog::info("serving metrics and health on {}", served.ToString());
    conditions.MetricsServed();
  };
  const auto page = std::make_shared<metrics::MetricsPage>(SourcesOf(parts));
  const auto liveness = std::make_shared<metrics::Liveness>(std::move(threads), kAnswersWithin);
  const auto alive = [liveness] { return Alive(*liveness); };
  metrics::HttpPages pages = {{"/metrics",
                               [page] {
                                 return metrics::HttpAnswer{
                                     .text = *page->Text(),
                                     .content_type = metrics::MetricsPage::kContentType};
                               }},
                              {"/livez", alive},
                              {"/healthz", alive},
                              {"/readyz", [parts] { return Ready(parts); }}};
  AddLivePage(parts, pages);
  // They name pods, and a browser shows them: pages of other sites must not read them.
  settings.named_hosts_only = {"/", "/topology.svg"};
  return metrics::HttpServer::Start(**where, std::move(pages), std::move(settings));
}

}  // namespace alignd::daemon
