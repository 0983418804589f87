// alignd-extender: options, logging, the feed of nodes, and the server.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "cli/parallel.h"
#include "daemon/async_log.h"
#include "daemon/log_sinks.h"
#include "extender/extender.h"
#include "extender/extender_options.h"
#include "extender/extender_server.h"
#include "extender/node_feed.h"

int main(int argc, char** argv) {
  using namespace alignd;
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
  auto server = extender::ExtenderServer::Start(options->listen, options->tls, extender);
  if (!server.ok()) {
    spdlog::error("{}", server.error().Text());
    return EXIT_FAILURE;
  }
  metrics::ListenAddress served = options->listen;
  served.port = (*server)->port();
  spdlog::info("alignd-extender " ALIGND_VERSION ": serves {} at {}",
               options->tls.certificate.empty() ? "HTTP" : "HTTPS", served.ToString());
  if (options->tls.client_ca.empty() && !served.ip.starts_with("127.") && served.ip != "::1") {
    spdlog::warn(
        "{} is no loopback address, and any caller is served: each of them can keep "
        "places on nodes; give --tls-client-ca",
        served.ToString());
  }
  const extender::NodeFeed feed(
      options->sources, [&](const Result<std::vector<placement::FleetNode>>& nodes) {
        extender.SetNodes(nodes, extender::Extender::Clock::now());
        if (const auto problem = extender.Problem()) {
          spdlog::error("NodesNotRead: {}; no pod is let through until they can be read",
                        problem->Text());
        } else {
          spdlog::info("{} nodes are known, {} pods are on their way", extender.GetCounts().nodes,
                       extender.GetCounts().kept_pods);
        }
        log.ReportLostLines();
      });
  int received = 0;
  sigwait(&ends, &received);
  spdlog::info("ends after signal {}", received);
  return EXIT_SUCCESS;
}
