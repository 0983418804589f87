#include "extender/extender_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "alignd/placement/score.h"
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
};

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
  if (std::ranges::count(options.sources.nodes, "-") > 0) {
    throw CLI::ValidationError("--nodes", "standard input cannot be read again");
  }
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
