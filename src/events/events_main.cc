// alignd-events: options, logging, `Reporter`. A program of its own, which only reads
// alignd's status: alignd itself needs neither network nor credential.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "apiserver/api_client.h"
#include "apiserver/api_credential.h"
#include "control/control_client.h"
#include "daemon/async_log.h"
#include "daemon/command_line.h"
#include "daemon/log_sinks.h"
#include "events/events_options.h"
#include "events/placement_publisher.h"
#include "events/reporter.h"
#include "events/topology_publisher.h"

namespace {

using namespace alignd;

Result<apiserver::ApiCredential> Credential(const events::EventsOptions& options) {
  if (!options.in_cluster) return apiserver::ReadKubeconfig(options.kubeconfig);
  return apiserver::ServiceAccountOfEnvironment();
}

}  // namespace

int main(int argc, char** argv) {
  int exit_status = EXIT_SUCCESS;
  const auto options = events::ParseEventsOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  umask(S_IRWXG | S_IRWXO);
  signal(SIGPIPE, SIG_IGN);
  // It ends at once, also in the middle of a call: it keeps nothing. Without a handler, the kernel
  // would ignore these signals if the program is process 1 of a container.
  for (const int ends : {SIGTERM, SIGINT}) signal(ends, [](int) { _exit(EXIT_SUCCESS); });
  daemon::AsyncLog log(options->log_level,
                       daemon::MakeLogSink(daemon::ChooseLogFormat(
                           options->log_format, STDOUT_FILENO, std::getenv("JOURNAL_STREAM"))));

  spdlog::info("{}: reports {} to {} as node {}", daemon::VersionOf("alignd-events"),
               options->control_socket,
               options->in_cluster ? "the API server of this pod's cluster"
                                   : "the API server of " + options->kubeconfig.string(),
               options->node_name);
  const control::ControlClient client(options->control_socket, control::kDefaultPatience,
                                      "--control-socket");
  const auto connect = [&]() -> Result<apiserver::ApiCall> {
    const auto credential = Credential(*options);
    if (!credential.ok()) return credential.error();
    return apiserver::ConnectTo(*credential, "alignd-events");
  };
  // There may be nothing to send for days: what is wrong with the credential is said now.
  if (const auto call = connect(); !call.ok()) {
    spdlog::warn("nothing can be reported: {}", call.error().Text());
  }
  // Threads of their own: none waits for another's calls of the API server.
  std::optional<events::TopologyPublisher> publisher;
  std::thread publishing;
  const auto get_topology = [&](const std::string& known_version, std::chrono::milliseconds wait,
                                bool pod_placements) {
    control::v1::GetTopologyRequest request;
    request.set_name(options->node_name);
    request.set_known_version(known_version);
    request.set_wait_ms(static_cast<uint32_t>(wait.count()));
    request.set_koordinator_annotations(options->koordinator_annotations);
    request.set_pod_placements(pod_placements);
    // The publisher asks for no placements; it has a thread of its own.
    if (!pod_placements) *request.mutable_publication() = publisher->Publication();
    return client.GetTopology(request);
  };
  if (options->publishes_topology) {
    publisher.emplace(
        options->node_name,
        [&](const auto& known, auto wait) { return get_topology(known, wait, false); }, connect);
    if (options->wakes_scheduler) publisher->WakeScheduler();
    publishing = std::thread([&publisher] {
      for (;;) std::this_thread::sleep_for(publisher->Step());
    });
  }
  std::optional<events::PlacementPublisher> placements;
  std::thread placing;
  if (options->kai_numa_placement) {
    placements.emplace(
        [&](const auto& known, auto wait) { return get_topology(known, wait, true); }, connect);
    placing = std::thread([&placements] {
      for (;;) std::this_thread::sleep_for(placements->Step());
    });
  }
  events::Reporter reporter(
      options->node_name, [&] { return client.GetStatus(); }, connect);
  for (;;) {
    if (!options->no_events) reporter.Look(std::chrono::steady_clock::now());
    log.ReportLostLines();
    std::this_thread::sleep_for(options->interval);
  }
}
