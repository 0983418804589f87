// alignd-extender: options, logging, the feed of nodes, and the server.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "alignd/base/counted.h"
#include "apiserver/api_client.h"
#include "apiserver/api_credential.h"
#include "cli/fleet_input.h"
#include "cli/parallel.h"
#include "daemon/async_log.h"
#include "daemon/command_line.h"
#include "daemon/log_sinks.h"
#include "extender/cluster_feed.h"
#include "extender/extender.h"
#include "extender/extender_options.h"
#include "extender/extender_server.h"
#include "extender/leader_endpoint.h"
#include "extender/leadership.h"
#include "extender/node_feed.h"

namespace {

using namespace alignd;

constexpr char kUserAgent[] = "alignd-extender";
// At the end, the pods that were let through are waited for so long. If the calls of the API server
// that follow take longer than systemd and the kubelet wait, the Lease is left to expire.
constexpr std::chrono::seconds kHandOver{8};

Result<apiserver::ApiCredential> Credential(const extender::ExtenderOptions& options) {
  return options.in_cluster ? apiserver::ServiceAccountOfEnvironment()
                            : apiserver::ReadKubeconfig(options.kubeconfig);
}

Result<std::unique_ptr<apiserver::ApiReader>> Connect(const extender::ExtenderOptions& options) {
  const Result<apiserver::ApiCredential> credential = Credential(options);
  if (!credential.ok()) return credential.error();
  // Longer than a watch lasts.
  constexpr std::chrono::seconds kSilence{60};
  return apiserver::ReaderFor(*credential, kUserAgent, kSilence);
}

// For calls of the Lease: whole seconds of `patience`, at least one, and no more than other calls.
Result<apiserver::ApiCall> ConnectForLease(const extender::ExtenderOptions& options,
                                           std::chrono::milliseconds patience) {
  const Result<apiserver::ApiCredential> credential = Credential(options);
  if (!credential.ok()) return credential.error();
  return apiserver::ConnectTo(*credential, kUserAgent,
                              std::clamp(std::chrono::floor<std::chrono::seconds>(patience),
                                         std::chrono::seconds(1), apiserver::kApiPatience));
}

// Takes part in the election. `options`, `cluster` and `extender` outlive it. Errors: of
// NewIdentity; kIo: there is no clock to measure with.
Result<std::unique_ptr<extender::Leadership>> Elect(const extender::ExtenderOptions& options,
                                                    extender::ClusterFeed& cluster,
                                                    const extender::Extender& extender) {
  if (const Result<Done> clock = BootClock::Check(); !clock.ok()) return clock.error();
  const Result<std::string> identity = extender::NewIdentity();
  if (!identity.ok()) return identity.error();
  extender::Leadership::Settings settings{.election = options.election,
                                          .wait = options.settings.keep_for};
  settings.election.identity = *identity;
  if (!options.endpoint_slice.empty()) {
    // Less patience: the renewal of the Lease waits for it.
    const auto endpoint = std::make_shared<extender::LeaderEndpoint>(
        extender::LeaderEndpoint::Settings{.name_space = options.election.name_space,
                                           .slice = options.endpoint_slice,
                                           .address = options.endpoint_address},
        [&options] { return ConnectForLease(options, options.election.retry_period); });
    settings.announce = [endpoint] { return endpoint->Announce(); };
  }
  // A call can wait twice: for the connection, and for the answer. A third of the deadline is free
  // for the next attempt.
  return std::make_unique<extender::Leadership>(
      settings,
      [&options] { return ConnectForLease(options, options.election.renew_deadline / 3); },
      extender::Leadership::View{
          .as_of = [&cluster] { return cluster.AsOf(); },
          .list_again = [&cluster] { cluster.ListAgain(); },
          .pods_on_their_way = [&extender] { return extender.GetCounts().kept_pods; }});
}

// Of nodes of files, if `problems` are not those that were logged.
void LogNodeProblems(std::map<std::string, std::string> problems,
                     std::map<std::string, std::string>& logged) {
  if (problems == logged) return;
  logged = std::move(problems);
  if (logged.empty()) {
    spdlog::info("NodeNotRead: resolved");
  } else {
    spdlog::warn("NodeNotRead: {}; no pod is let through there",
                 extender::DescribeProblems(logged));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int exit_status = EXIT_SUCCESS;
  const auto options = extender::ParseExtenderOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  umask(S_IRWXG | S_IRWXO);
  // Before the first thread, which inherits it.
  sigset_t ends{};
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  daemon::AsyncLog log(options->log_level,
                       daemon::MakeLogSink(daemon::ChooseLogFormat(
                           options->log_format, STDOUT_FILENO, std::getenv("JOURNAL_STREAM"))));

  extender::Extender::Settings settings = options->settings;
  settings.for_each = cli::ForEachOnAllCpus;
  extender::Extender extender(settings);
  const Result<std::string> config =
      cli::ReadSharedConfig(options->sources.config, options->sources.flags);
  if (!config.ok()) {
    spdlog::error("{}", config.error().Text());
    return EXIT_FAILURE;
  }
  std::optional<extender::ClusterFeed> cluster;
  std::function<std::string()> more_metrics;
  if (options->sources.nodes.empty()) {
    // What is wrong with the credential now may be repaired while the program runs.
    if (const auto reader = Connect(*options); !reader.ok()) {
      spdlog::warn("NodesNotRead: {}", reader.error().Text());
    }
    cluster.emplace(
        extender::ClusterFeed::Settings{.config = *config,
                                        .stale_after = options->stale_after,
                                        .for_each = cli::ForEachOnAllCpus},
        [&options] { return Connect(*options); }, extender);
    more_metrics = [&cluster] { return cluster->MetricsPage(); };
  }
  // A replica whose address cannot be used must not take the Lease: the server comes first.
  std::atomic<extender::Leadership*> elected = nullptr;
  extender::ExtenderServer::Permits permits;
  if (options->elects_leader) {
    permits = [&elected]() -> Result<uint64_t> {
      const extender::Leadership* const leadership = elected.load();
      if (leadership != nullptr) return leadership->Permits();
      return Error{ErrorCode::kUnavailable, "NotLeader: this replica starts",
                   "wait; kube-scheduler tries again"};
    };
    more_metrics = [&elected, of_cluster = more_metrics] {
      const extender::Leadership* const leadership = elected.load();
      return of_cluster() + (leadership != nullptr ? leadership->MetricsPage() : "");
    };
  }
  // Longer than changes need from the API server to the nodes that decide.
  constexpr std::chrono::milliseconds kSettle{150};
  const bool has_cluster = options->sources.nodes.empty();
  auto server = extender::ExtenderServer::Start(
      options->listen, options->tls, extender, more_metrics, permits,
      has_cluster ? kSettle : std::chrono::milliseconds(0));
  if (!server.ok()) {
    spdlog::error("{}", server.error().Text());
    return EXIT_FAILURE;
  }
  metrics::ListenAddress served = options->listen;
  served.port = (*server)->port();
  spdlog::info("{}: serves {} at {}", daemon::VersionOf("alignd-extender"),
               options->tls.certificate.empty() ? "HTTP" : "HTTPS", served.ToString());
  if (options->tls.client_ca.empty() && !served.ip.starts_with("127.") && served.ip != "::1") {
    spdlog::warn(
        "{} is no loopback address, and any caller is served: each of them can keep "
        "places on nodes; give --tls-client-ca",
        served.ToString());
  }
  std::unique_ptr<extender::Leadership> leadership;
  if (options->elects_leader) {
    auto started = Elect(*options, *cluster, extender);
    if (!started.ok()) {
      spdlog::error("{}", started.error().Text());
      return EXIT_FAILURE;
    }
    leadership = *std::move(started);
    elected.store(leadership.get());
  }
  std::optional<extender::NodeFeed> files;
  if (!cluster) {
    files.emplace(options->sources, [&extender, logged = std::string(),
                                     unusable = std::map<std::string, std::string>()](
                                        const Result<std::vector<placement::FleetNode>>& nodes,
                                        extender::Extender::Clock::time_point as_of) mutable {
      extender.SetNodes(nodes, as_of);
      const auto problem = extender.Problem();
      if (!problem) {
        spdlog::info("{} known, places kept for {}", Counted(extender.GetCounts().nodes, "node"),
                     Counted(extender.GetCounts().kept_pods, "pod"));
        LogNodeProblems(extender.NodeProblems(), unusable);
      } else if (problem->Text() != logged) {
        spdlog::error("NodesNotRead: {}; no pod is let through until they can be read",
                      problem->Text());
      }
      logged = problem ? problem->Text() : "";
    });
  }
  int received = -1;
  while (received < 0) {
    constexpr timespec kBetweenReports{.tv_sec = 1, .tv_nsec = 0};
    received = sigtimedwait(&ends, nullptr, &kBetweenReports);
    log.ReportLostLines();
  }
  spdlog::info("ends after signal {}", received);
  if (leadership) leadership->HandOver(kHandOver);
  // A caller that sends its request slowly is not waited for, nor the API server: nothing is left
  // to be written but the log, and kube-scheduler repeats its calls.
  (void)log.Close();
  std::_Exit(EXIT_SUCCESS);
}
