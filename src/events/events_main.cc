// alignd-events: options, logging, `Reporter`. A program of its own, which only reads
// alignd's status: alignd itself needs neither network nor credential.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "control/control_client.h"
#include "daemon/async_log.h"
#include "daemon/log_sinks.h"
#include "events/api_client.h"
#include "events/api_credential.h"
#include "events/events_options.h"
#include "events/reporter.h"

namespace {

using namespace alignd;

const char* Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<events::ApiCredential> Credential(const events::EventsOptions& options) {
  if (!options.in_cluster) return events::ReadKubeconfig(options.kubeconfig);
  return events::ServiceAccount(Environment("KUBERNETES_SERVICE_HOST"),
                                Environment("KUBERNETES_SERVICE_PORT"));
}

}  // namespace

int main(int argc, char** argv) {
  int exit_status = EXIT_SUCCESS;
  const auto options = events::ParseEventsOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  umask(S_IRWXG | S_IRWXO);
  // Other signals end it at once, also in the middle of a call: it keeps nothing.
  signal(SIGPIPE, SIG_IGN);
  daemon::AsyncLog log(options->log_level,
                       daemon::MakeLogSink(daemon::ChooseLogFormat(
                           options->log_format, STDOUT_FILENO, std::getenv("JOURNAL_STREAM"))));

  spdlog::info("alignd-events " ALIGND_VERSION ": reports {} to {} as node {}",
               options->control_socket,
               options->in_cluster ? "the API server of this pod's cluster"
                                   : "the API server of " + options->kubeconfig.string(),
               options->node_name);
  const auto connect = [&]() -> Result<events::ApiCall> {
    const auto credential = Credential(*options);
    if (!credential.ok()) return credential.error();
    return events::ConnectTo(*credential);
  };
  // There may be nothing to send for days: what is wrong with the credential is said now.
  if (const auto call = connect(); !call.ok()) {
    spdlog::warn("no Events can be reported: {}", call.error().Text());
  }
  events::Reporter reporter(
      options->node_name,
      [&] { return control::ControlClient(options->control_socket).GetStatus(); }, connect);
  for (;;) {
    reporter.Look(std::chrono::steady_clock::now());
    log.ReportLostLines();
    std::this_thread::sleep_for(options->interval);
  }
}
