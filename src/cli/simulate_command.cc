#include "cli/simulate_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/placement/manifest.h"
#include "cli/cluster_options.h"
#include "cli/output.h"
#include "cli/plan_input.h"
#include "cli/pod_plan.h"
#include "cli/policy_options.h"
#include "cli/scenario_runs.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

struct SimulateOptions {
  PlanSources plan;
  int64_t replicas = 0;  // 0: those of the manifests
  bool check = false;
  bool explain = false;
  std::string output = "text";
};

// A file with many vectors may be longer than any file that the daemon reads.
constexpr size_t kMaxScenarioBytes = size_t{1} << 30;

// Not a scenario, whatever is wrong with it.
bool IsManifestInYaml(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] != '{' &&
         text.find("kind:") != std::string_view::npos;
}

Result<int> SimulateScenarios(const SimulateOptions& options, std::ostream& out) {
  std::vector<ScenarioText> scenarios;
  const auto add = [&scenarios](const std::string& name, const std::string& text) {
    for (ScenarioText& scenario : SplitScenarios(name, text)) {
      scenarios.push_back(std::move(scenario));
    }
  };
  if (options.plan.files.empty()) {
    add("standard input", {std::istreambuf_iterator<char>(std::cin), {}});
  }
  for (const std::string& file : options.plan.files) {
    const Result<std::string> text = host::ReadFileOrPipe(file, kMaxScenarioBytes);
    if (!text.ok()) return text.error();
    if (IsManifestInYaml(*text)) {
      return Error{ErrorCode::kInvalidArgument, file + ": is no scenario, which is JSON",
                   "to plan the pods of a manifest, add --config with a KubeletConfiguration"};
    }
    add(file, *text);
  }
  return options.check ? CheckScenarios(scenarios, out) : RunScenarios(scenarios, out);
}

Result<int> SimulatePods(const SimulateOptions& options, std::ostream& out) {
  if (options.plan.files.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no manifests are named",
                 "name files or directories, or - for standard input"};
  }
  int streams = 0;
  for (const auto* const files : {&options.plan.files, &options.plan.running, &options.plan.nodes})
    streams += static_cast<int>(std::ranges::count(*files, "-"));
  if (streams > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "standard input (-) is named " + std::to_string(streams) + " times",
                 "name files for the others"};
  }
  Result<placement::Manifests> manifests = ReadManifests(options.plan.files);
  if (!manifests.ok()) return manifests.error();
  placement::LeaveOutOwned(*manifests);
  const std::optional<int64_t> replicas =
      options.replicas > 0 ? std::optional(options.replicas) : std::nullopt;
  const auto pods = placement::ExpandPods(*manifests, replicas);
  if (!pods.ok()) return pods.error();
  if (pods->empty()) return NoPods(*manifests);
  Result<placement::PlannedNode> node = ReadPlannedNode(options.plan);
  if (!node.ok()) return node.error();
  return PlanPods(*node, *pods, manifests->skipped, options.explain, options.output, out);
}

// Whether pods are planned; else, scenarios are run.
bool IsPlan(const PlanSources& plan) {
  return !plan.config.empty() || !plan.nodes.empty() || plan.from_cluster;
}

// The options for planning. Objects of a cluster can say how the node decides; without them,
// --config does.
void AddPlanOptions(CLI::App& command, CLI::Option* check, CLI::Option* config,
                    SimulateOptions& options) {
  PlanSources& plan = options.plan;
  CLI::Option* const node =
      command
          .add_option("--node", plan.nodes,
                      "The node in JSON, as `alignctl topology -o json` prints it, with `devices` "
                      "added if there are any; and, repeated, its Node object; or objects as "
                      "`kubectl get pods,noderesourcetopologies,nodes -A -o json` prints them; "
                      "default: this machine")
          ->type_name("FILE")
          ->allow_extra_args(false)
          ->excludes(check);
  AddClusterOptions(command, plan.from_cluster, plan.kubeconfig);
  CLI::Option* const from_cluster = command.get_option("--from-cluster")->excludes(check, node);
  command
      .add_option("--node-name", plan.node_name,
                  "With objects of several nodes: the name of the Node to plan with")
      ->type_name("NAME");
  command.add_option("--root", plan.root, "Directory with the sys/ of the machine to plan for")
      ->type_name("DIR")
      ->excludes(node, from_cluster)
      ->needs(config);
  AddPolicyOptions(command, plan.flags);
  command
      .add_option("--device", plan.devices,
                  "Devices of one resource, by NUMA node: nvidia.com/gpu=4@0,4@1; repeatable")
      ->type_name("RESOURCE=COUNT@NUMA,...")
      ->allow_extra_args(false);
  command
      .add_option("--state-dir", plan.state_dir,
                  "Directory with the state files of pods that run, of the kubelet or of alignd")
      ->type_name("DIR")
      ->needs(config);
  command
      .add_option("--device-checkpoint", plan.device_checkpoint,
                  "kubelet_internal_checkpoint; default: looked for in --state-dir")
      ->type_name("FILE")
      ->needs(config);
  command
      .add_option("--running", plan.running,
                  "Manifests of pods that run on the node, such as kubectl get pods -o json; "
                  "repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->needs(config);
  command
      .add_option("--replicas", options.replicas,
                  "Place so many pods of each manifest, in place of its replicas")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, placement::kMaxReplicas));
  command.add_flag("--explain", options.explain,
                   "Show for each container how its NUMA nodes were chosen");
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* const command = app.add_subcommand(
      "simulate", "Run scenarios, or show where pods would be placed on a node; needs no daemon");
  command
      ->add_option("files", options->plan.files,
                   "Scenarios (one JSON object, or one per line; standard input if none is "
                   "given); with --config, --node or --from-cluster, manifests in YAML or JSON: "
                   "files, directories, or - for standard input")
      ->type_name("FILE");
  CLI::Option* const check =
      command->add_flag("--check", options->check, "Compare with what the scenarios expect");
  CLI::Option* const config =
      command
          ->add_option("--config", options->plan.config, "KubeletConfiguration to plan pods with")
          ->type_name("FILE")
          ->excludes(check);
  AddPlanOptions(*command, check, config, *options);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl simulate --config /var/lib/kubelet/config.yaml pod.yaml",
                         "alignctl simulate --node node.json --config config.yaml -o json pod.yaml",
                         "alignctl simulate --node node.json --device nvidia.com/gpu=4@0,4@1 "
                         "--config config.yaml --replicas 3 deployment.yaml",
                         "alignctl simulate --from-cluster --node-name worker-1 pod.yaml",
                         "alignctl simulate --check scenarios.jsonl"});
  command->callback([options, command, &action] {
    for (const char* const name :
         {"--device", "--replicas", "--explain", "--node-name", "--pod-policies",
          "--shared-pool-handlers", "--not-devices", "--annotated-extended-resources"}) {
      if (IsPlan(options->plan) || command->count(name) == 0) continue;
      throw CLI::RequiresError(name, "--config, --node or --from-cluster");
    }
    action = Action(
        [options](std::ostream& out) {
          return IsPlan(options->plan) ? SimulatePods(*options, out)
                                       : SimulateScenarios(*options, out);
        },
        kBadInput);
  });
}

}  // namespace alignd::cli
