#include "events/events_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <set>

#include "control/control_client.h"
#include "daemon/command_line.h"
#include "host/node_name.h"

namespace alignd::events {
namespace {

constexpr char kDescription[] =
    "alignd-events: reports refused, waiting and assigned pods of this node to the cluster as "
    "Events, and the node as a NodeResourceTopology object";
constexpr int kWrongCommandLine = 2;

// `options` and `interval_s` outlive `app`.
void AddEventsOptions(CLI::App& app, EventsOptions& options, int64_t& interval_s) {
  daemon::SetUpProgram(app);
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Credential for the API server. It is read anew before each report.")
      ->capture_default_str();
  app.add_flag("--in-cluster", options.in_cluster,
               "Use the service account of the pod in which this program runs instead");
  app.add_option("--control-socket", options.control_socket, "alignd's control socket")
      ->capture_default_str();
  app.add_option("--node-name", options.node_name,
                 "Name of this Node; if not given, the host name in lower case");
  app.add_option("--interval-s", interval_s, "Seconds between two looks at alignd's status")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_flag(
      "--topology", options.publishes_topology,
      "Publish the NodeResourceTopology object of this node for topology-aware schedulers");
  app.add_flag("--wake-scheduler", options.wakes_scheduler,
               "With --topology: mark the Node after a change of the object, so that "
               "kube-scheduler asks its extenders again about waiting pods")
      ->needs("--topology");
  app.add_flag("--koordinator-annotations", options.koordinator_annotations,
               "With --topology: also the annotations from which Koordinator's scheduler knows the "
               "CPUs of the node");
  app.add_flag("--kai-numa-placement", options.kai_numa_placement,
               "With --topology: also write on each pod what it has on which NUMA node, for "
               "KAI-Scheduler");
  app.add_flag("--no-events", options.no_events, "Send no Events");
  app.add_option("--log-level", options.log_level, "Level of the log")
      ->check(CLI::IsMember(std::set<std::string>{"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "Form of the log, as of alignd")
      ->check(CLI::IsMember(std::set<std::string>{"auto", "journal", "text", "json"}))
      ->capture_default_str();
  daemon::AddExamples(app,
                      {"alignd-events", "alignd-events --in-cluster --node-name worker-1",
                       "alignd-events --topology --no-events --kubeconfig /etc/alignd/events.conf"},
                      "Exit status: 0 stopped by a signal; 2 the command line is wrong.");
}

}  // namespace

std::optional<EventsOptions> ParseEventsOptions(int argc, const char* const* argv,
                                                int& exit_status) {
  EventsOptions options;
  options.control_socket = control::kDefaultSocket;
  int64_t interval_s = options.interval.count();
  CLI::App app(kDescription, "alignd-events");
  AddEventsOptions(app, options, interval_s);
  try {
    app.parse(argc, argv);
    if (options.node_name.empty()) options.node_name = host::DefaultNodeName();
    if (!host::IsObjectName(options.node_name)) {
      throw CLI::ValidationError("--node-name",
                                 "\"" + options.node_name + "\" is not the name of a Node");
    }
    if (options.no_events && !options.publishes_topology) {
      throw CLI::ValidationError("--no-events", "there is nothing to report without --topology");
    }
    if (options.koordinator_annotations && !options.publishes_topology) {
      throw CLI::ValidationError("--koordinator-annotations",
                                 "they are part of the object of --topology");
    }
    if (options.kai_numa_placement && !options.publishes_topology) {
      throw CLI::ValidationError("--kai-numa-placement",
                                 "KAI-Scheduler needs the object of --topology too");
    }
    if (options.kai_numa_placement && options.koordinator_annotations) {
      throw CLI::ValidationError("--kai-numa-placement",
                                 "the object for --koordinator-annotations has other allocatable "
                                 "CPUs than KAI-Scheduler expects; leave one of the two out");
    }
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error) == 0 ? 0 : kWrongCommandLine;
    return std::nullopt;
  }
  options.interval = std::chrono::seconds(interval_s);
  return options;
}

void DescribeEventsOptions(const std::function<void(const CLI::App&)>& use) {
  EventsOptions options;
  options.control_socket = control::kDefaultSocket;
  int64_t interval_s = options.interval.count();
  CLI::App app(kDescription, "alignd-events");
  AddEventsOptions(app, options, interval_s);
  use(app);
}

}  // namespace alignd::events
