#include "cli/fit_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "alignd/placement/fit.h"
#include "alignd/placement/manifest.h"
#include "cli/cluster_options.h"
#include "cli/fit_text.h"
#include "cli/fleet_input.h"
#include "cli/output.h"
#include "cli/parallel.h"
#include "cli/plan_input.h"
#include "cli/policy_options.h"

namespace alignd::cli {
namespace {

struct FitFlags {
  std::vector<std::string> files;
  FleetSources fleet;
  std::string score = "LeastAllocated";
  std::string replicas;  // empty: those of the manifests
  std::vector<std::string> compare;
  std::string output = "text";
};

// What `--replicas` asks for.
struct ReplicasFlag {
  bool fill = false;
  std::optional<int64_t> count;
};

Result<ReplicasFlag> ParseReplicas(const std::string& text) {
  if (text.empty()) return ReplicasFlag{};
  if (text == "max") return ReplicasFlag{true, 1};
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1 ||
      count > placement::kMaxReplicas) {
    return Error{ErrorCode::kInvalidArgument,
                 "--replicas " + text + ": is not a number from 1 to " +
                     std::to_string(placement::kMaxReplicas) + ", nor max",
                 "write such a number, or max for as many pods as fit"};
  }
  return ReplicasFlag{false, count};
}

Result<placement::FitOptions> OptionsOf(const FitFlags& flags, bool fill) {
  placement::FitOptions options;
  options.strategy =
      placement::ScoreStrategyOf(flags.score).value_or(placement::ScoreStrategy::kByLeastAllocated);
  options.fill = fill;
  for (const std::string& text : flags.compare) {
    const auto changes = placement::ParseConfigChanges(text);
    if (!changes.ok()) return changes.error().In("--compare");
    options.changes.insert(options.changes.end(), changes->begin(), changes->end());
  }
  return options;
}

Result<int> FitPods(const FitFlags& flags, std::ostream& out) {
  const Result<ReplicasFlag> replicas = ParseReplicas(flags.replicas);
  if (!replicas.ok()) return replicas.error();
  const Result<placement::FitOptions> options = OptionsOf(flags, replicas->fill);
  if (!options.ok()) return options.error();
  if (std::ranges::count(flags.files, "-") > 0 && std::ranges::count(flags.fleet.nodes, "-") > 0) {
    return Error{ErrorCode::kInvalidArgument, "-f - and --nodes -: both are standard input",
                 "name a file for one of them"};
  }
  Result<placement::Manifests> manifests = ReadManifests(flags.files);
  if (!manifests.ok()) return manifests.error();
  placement::LeaveOutOwned(*manifests);
  const auto pods = placement::ExpandPods(*manifests, replicas->count);
  if (!pods.ok()) return pods.error();
  if (pods->empty()) return NoPods(*manifests);
  std::vector<std::string> notes;
  const Result<std::vector<placement::FleetNode>> nodes = ReadFleet(flags.fleet, &notes);
  if (!nodes.ok()) return nodes.error();
  Result<placement::FitResult> result =
      placement::FitFleet(*nodes, *pods, *options, ForEachOnAllCpus);
  if (!result.ok()) {
    if (!result.error().remedy.empty()) return result.error();
    return Error{ErrorCode::kInvalidArgument, result.error().message,
                 "correct the KubeletConfiguration or the description of the node"};
  }
  result->skipped = manifests->skipped;
  result->fleet_notes = std::move(notes);
  if (IsData(flags.output)) {
    out << AsData(placement::FitJson(*result), flags.output);
  } else {
    PrintFit(*result, flags.output == "wide", out);
  }
  if (!result->unusable.empty()) return kBadInput;
  return result->report.is_complete() ? kSuccess : kFailure;
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const placement::ScoreStrategy strategy : placement::AllScoreStrategies()) {
    names.emplace_back(ToString(strategy));
  }
  return names;
}

void AddFitOptions(CLI::App& command, FitFlags& flags) {
  command
      .add_option("-f,--filename", flags.files,
                  "Manifests in YAML or JSON: files, directories, or - for standard input; "
                  "repeatable")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--nodes", flags.fleet.nodes,
                  "Nodes: files as `alignctl topology -o json` prints them, directories of them or "
                  "of a directory for each node, objects as `kubectl get "
                  "pods,noderesourcetopologies,nodes -A -o json` prints them, or - for standard "
                  "input; repeatable")
      ->type_name("FILE");
  AddClusterOptions(command, flags.fleet.from_cluster, flags.fleet.kubeconfig);
  command
      .add_option("--config", flags.fleet.config,
                  "KubeletConfiguration of the nodes that have none of their own")
      ->type_name("FILE");
  AddPolicyOptions(command, flags.fleet.flags);
  command
      .add_option("--device", flags.fleet.devices,
                  "Devices of one resource on every node, by NUMA node: nvidia.com/gpu=4@0,4@1; "
                  "repeatable")
      ->type_name("RESOURCE=COUNT@NUMA,...")
      ->allow_extra_args(false);
  command.add_option("--score", flags.score, "How nodes are ordered that can take a pod")
      ->type_name("STRATEGY")
      ->check(CLI::IsMember(StrategyNames()))
      ->capture_default_str();
  command
      .add_option("--replicas", flags.replicas,
                  "Place N pods of each manifest, in place of its replicas; max: as many as fit")
      ->type_name("N");
  command
      .add_option("--compare", flags.compare,
                  "Also show what nodes with another setting would admit: "
                  "policy=restricted,best-effort; repeatable")
      ->type_name("KEY=VALUE,...")
      ->allow_extra_args(false);
  AddOutputOption(command, flags.output);
}

}  // namespace

void AddFitCommand(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<FitFlags>();
  CLI::App* const command = app.add_subcommand(
      "fit",
      "Show which nodes can take pods, in which order, and how many pods fit; needs no daemon; "
      "exit status 0: all fit, 1: some do not, 2: an input or a node cannot be used");
  AddFitOptions(*command, *flags);
  AddExamples(*command,
              {"alignctl fit -f pods.yaml --nodes nodes/",
               "alignctl fit -f pod.yaml --nodes nodes/ --config config.yaml --replicas max",
               "alignctl fit -f pod.yaml --from-cluster",
               "alignctl fit -f pods.yaml --nodes nodes/ --score MostAllocated --compare "
               "policy=restricted,best-effort --compare reserved-cpus=0-3"});
  command->callback([flags, &action] {
    action = Action([flags](std::ostream& out) { return FitPods(*flags, out); }, kBadInput);
  });
}

}  // namespace alignd::cli
