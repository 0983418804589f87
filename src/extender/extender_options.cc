#include "extender/extender_options.h"

#include <arpa/inet.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "alignd/config/go_duration.h"
#include "alignd/placement/score.h"
#include "cli/policy_options.h"
#include "daemon/command_line.h"

namespace alignd::extender {
namespace {

constexpr char kExtenderDescription[] =
    "alignd-extender: an extender of kube-scheduler. It lets pods through to nodes on which the "
    "kubelet will admit them under its topology policy";
constexpr int kWrongExtenderLine = 2;

// What the options are before they are checked.
struct Texts {
  std::string listen = "127.0.0.1:10273";
  std::string score = "LeastAllocated";
  int64_t keep_s = 60;
  int64_t stale_s = 180;
  int64_t nodes_per_pod = 1;
  // As of kube-scheduler.
  std::string lease_duration = "15s";
  std::string renew_deadline = "10s";
  std::string retry_period = "2s";
};

void AddElectionOptions(CLI::App& app, ExtenderOptions& options, Texts& texts) {
  app.add_flag("--leader-elect", options.elects_leader,
               "Of several replicas, one answers: the leader, which has the Lease");
  const auto add = [&app](const char* name, std::string& value, const char* type,
                          const char* description) {
    app.add_option(name, value, description)->type_name(type)->capture_default_str();
  };
  add("--leader-elect-lease-duration", texts.lease_duration, "DURATION",
      "Without a renewal of the Lease for this time, another replica takes it");
  add("--leader-elect-renew-deadline", texts.renew_deadline, "DURATION",
      "Without a renewal of the Lease for this time, the leader stops answering");
  add("--leader-elect-retry-period", texts.retry_period, "DURATION",
      "Time between two attempts to take or to renew the Lease");
  add("--leader-elect-resource-name", options.election.name, "NAME", "Name of the Lease");
  add("--leader-elect-resource-namespace", options.election.name_space, "NAME",
      "Namespace of the Lease");
  app.add_option("--leader-endpoint-slice", options.endpoint_slice,
                 "EndpointSlice in that namespace into which the leader writes its address")
      ->type_name("NAME");
  app.add_option("--leader-endpoint-address", options.endpoint_address,
                 "Address of this replica, for --leader-endpoint-slice")
      ->type_name("IP");
}

// `options` and `texts` outlive `app`.
void AddExtenderOptions(CLI::App& app, ExtenderOptions& options, Texts& texts) {
  daemon::SetUpProgram(app);
  app.add_option("--nodes", options.sources.nodes,
                 "Nodes, as for `alignctl fit`: files and directories. They are read again when "
                 "they change; repeatable")
      ->type_name("FILE");
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Nodes from the API server instead: the credential, which is read anew for each "
                 "call")
      ->type_name("FILE");
  app.add_flag("--in-cluster", options.in_cluster,
               "Nodes from the API server instead, with the service account of the pod in which "
               "this program runs");
  app.add_option("--stale-s", texts.stale_s,
                 "Seconds after which no pod is let through if the API server is not heard")
      ->check(CLI::Range(60, 86400))
      ->capture_default_str();
  app.add_option("--config", options.sources.config,
                 "KubeletConfiguration of the nodes that have none of their own")
      ->type_name("FILE");
  cli::AddPolicyOptions(app, options.sources.flags);
  app.add_option("--listen", texts.listen, "Address of the extender: IP:PORT or [IP]:PORT")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--tls-cert", options.tls.certificate, "Certificate in PEM, for HTTPS")
      ->type_name("FILE");
  app.add_option("--tls-key", options.tls.key, "Its key in PEM")->type_name("FILE");
  app.add_option("--tls-client-ca", options.tls.client_ca,
                 "Only serve callers with a certificate of this CA")
      ->type_name("FILE");
  app.add_option("--score", texts.score,
                 "How nodes are ordered that can take a pod, as for "
                 "`alignctl fit`")
      ->capture_default_str();
  app.add_option("--nodes-per-pod", texts.nodes_per_pod,
                 "To how many nodes, the best ones, a pod is let through")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--keep-s", texts.keep_s,
                 "Seconds after which the place of a pod is dropped if the nodes are read without "
                 "it")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  AddElectionOptions(app, options, texts);
  app.add_option("--log-level", options.log_level, "Level of the log")
      ->check(CLI::IsMember(std::set<std::string>{"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "Form of the log, as of alignd")
      ->check(CLI::IsMember(std::set<std::string>{"auto", "journal", "text", "json"}))
      ->capture_default_str();
  daemon::AddExamples(
      app,
      {"alignd-extender --in-cluster --nodes-per-pod 3",
       "alignd-extender --kubeconfig /etc/kubernetes/scheduler.conf --score MostAllocated",
       "alignd-extender --nodes /etc/alignd/fleet --config kubelet-config.yaml --listen "
       "[::1]:10273"},
      "Exit status: 0 stopped by a signal; 1 it cannot serve, see its log; 2 the command line is "
      "wrong.");
}

std::chrono::milliseconds DurationOf(const char* option, const std::string& text) {
  const std::optional<int64_t> duration = ParseGoDuration(text);
  constexpr int64_t kNanosecondsPerMs = 1'000'000;
  if (!duration || *duration < kNanosecondsPerMs || *duration % kNanosecondsPerMs != 0) {
    throw CLI::ValidationError(option, text + " is not a duration as 15s, 1m or 500ms");
  }
  const std::chrono::milliseconds parsed(*duration / kNanosecondsPerMs);
  if (parsed > std::chrono::hours(24)) {
    throw CLI::ValidationError(option, text + " is more than 24h");
  }
  return parsed;
}

// Source: apimachinery pkg/util/validation, IsDNS1123Subdomain; namespaces have no dots.
void CheckName(const char* option, const std::string& name, bool has_dots) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool is_name = !name.empty() && name.size() <= (has_dots ? 253U : 63U) &&
                       is_plain(name.front()) && is_plain(name.back()) &&
                       std::ranges::all_of(name, [&](char c) {
                         return is_plain(c) || c == '-' || (has_dots && c == '.');
                       });
  if (!is_name) {
    throw CLI::ValidationError(option, "\"" + name + "\" is no name of the Kubernetes API");
  }
}

// Source: client-go tools/leaderelection, NewLeaderElector.
void CheckElection(const Texts& texts, ExtenderOptions& options) {
  LeaderElector::Settings& election = options.election;
  constexpr char kLease[] = "--leader-elect-lease-duration";
  constexpr char kRenew[] = "--leader-elect-renew-deadline";
  const std::chrono::milliseconds lease = DurationOf(kLease, texts.lease_duration);
  election.renew_deadline = DurationOf(kRenew, texts.renew_deadline);
  election.retry_period = DurationOf("--leader-elect-retry-period", texts.retry_period);
  election.lease_duration = std::chrono::floor<std::chrono::seconds>(lease);
  if (lease != election.lease_duration) {
    throw CLI::ValidationError(kLease, "the Lease has whole seconds");
  }
  if (election.lease_duration <= election.renew_deadline) {
    throw CLI::ValidationError(kLease, "must be greater than --leader-elect-renew-deadline");
  }
  if (election.renew_deadline <= election.retry_period * (1 + LeaderElector::kJitter)) {
    throw CLI::ValidationError(kRenew,
                               "must be greater than 1.2 times --leader-elect-retry-period");
  }
  CheckName("--leader-elect-resource-name", election.name, true);
  CheckName("--leader-elect-resource-namespace", election.name_space, false);
  if (options.endpoint_slice.empty() != options.endpoint_address.empty()) {
    throw CLI::ValidationError("--leader-endpoint-slice",
                               "give both --leader-endpoint-slice and --leader-endpoint-address");
  }
  if (!options.endpoint_slice.empty()) {
    CheckName("--leader-endpoint-slice", options.endpoint_slice, true);
    in6_addr address{};
    if (inet_pton(AF_INET, options.endpoint_address.c_str(), &address) != 1 &&
        inet_pton(AF_INET6, options.endpoint_address.c_str(), &address) != 1) {
      throw CLI::ValidationError("--leader-endpoint-address",
                                 options.endpoint_address + " is no IPv4 or IPv6 address");
    }
    if (!options.elects_leader) {
      throw CLI::ValidationError("--leader-endpoint-slice", "needs --leader-elect");
    }
  }
  if (options.elects_leader && !options.sources.nodes.empty()) {
    throw CLI::ValidationError("--leader-elect",
                               "the Lease is in the API server: give --kubeconfig or --in-cluster "
                               "in place of --nodes");
  }
}

void CheckExtenderOptions(const Texts& texts, ExtenderOptions& options) {
  const auto address = metrics::ParseListenAddress(texts.listen);
  if (!address.ok()) throw CLI::ValidationError("--listen", address.error().Text());
  if (!*address || !(*address)->path.empty()) {
    throw CLI::ValidationError("--listen", texts.listen + " is not IP:PORT or [IP]:PORT");
  }
  options.listen = **address;
  if (options.tls.certificate.empty() != options.tls.key.empty() ||
      (options.tls.certificate.empty() && !options.tls.client_ca.empty())) {
    throw CLI::ValidationError("--tls-cert", "HTTPS needs --tls-cert and --tls-key");
  }
  const std::optional<placement::ScoreStrategy> strategy = placement::ScoreStrategyOf(texts.score);
  if (!strategy) {
    std::string names;
    for (const placement::ScoreStrategy known : placement::AllScoreStrategies()) {
      names += (names.empty() ? "" : ", ") + std::string(ToString(known));
    }
    throw CLI::ValidationError("--score", texts.score + " is not one of " + names);
  }
  const int sources = (options.sources.nodes.empty() ? 0 : 1) +
                      (options.kubeconfig.empty() ? 0 : 1) + (options.in_cluster ? 1 : 0);
  if (sources != 1) {
    throw CLI::ValidationError("--nodes",
                               "give one of --nodes, --kubeconfig and --in-cluster: where the "
                               "nodes come from");
  }
  if (options.sources.nodes.empty() && options.sources.config.empty() &&
      options.sources.flags != placement::PolicyFlags()) {
    throw CLI::ValidationError(cli::kFlagsOfNodes, std::string(cli::kFlagsNeedConfig) +
                                                       "; add --config, or remove the flags");
  }
  if (std::ranges::count(options.sources.nodes, "-") > 0) {
    throw CLI::ValidationError("--nodes", "standard input cannot be read again");
  }
  CheckElection(texts, options);
  options.settings.strategy = *strategy;
  options.settings.nodes_per_pod = static_cast<size_t>(texts.nodes_per_pod);
  options.stale_after = std::chrono::seconds(texts.stale_s);
  options.settings.keep_for = std::chrono::seconds(texts.keep_s);
}

}  // namespace

std::optional<ExtenderOptions> ParseExtenderOptions(int argc, const char* const* argv,
                                                    int& exit_status) {
  ExtenderOptions options;
  Texts texts;
  CLI::App app(kExtenderDescription, "alignd-extender");
  AddExtenderOptions(app, options, texts);
  try {
    app.parse(argc, argv);
    CheckExtenderOptions(texts, options);
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error) == 0 ? 0 : kWrongExtenderLine;
    return std::nullopt;
  }
  return options;
}

void DescribeExtenderOptions(const std::function<void(const CLI::App&)>& use) {
  ExtenderOptions options;
  Texts texts;
  CLI::App app(kExtenderDescription, "alignd-extender");
  AddExtenderOptions(app, options, texts);
  use(app);
}

}  // namespace alignd::extender
