#include "cli/simulate_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/pod/kubernetes_pod.h"
#include "alignd/scenario/scenario.h"
#include "cli/output.h"
#include "cli/pod_plan.h"
#include "cli/scenario_runs.h"
#include "host/config_file.h"
#include "host/file.h"
#include "host/sysfs_machine.h"
#include "host/yaml.h"

namespace alignd::cli {
namespace {

struct SimulateOptions {
  std::vector<std::string> files;
  std::string node;
  std::string config;
  bool check = false;
  bool explain = false;
  std::string output = "text";
};

// A file with many vectors may be longer than any file that the daemon reads.
constexpr size_t kMaxScenarioBytes = size_t{1} << 30;

Result<int> SimulateScenarios(const SimulateOptions& options, std::ostream& out) {
  std::vector<ScenarioText> scenarios;
  const auto add = [&scenarios](const std::string& name, const std::string& text) {
    for (ScenarioText& scenario : SplitScenarios(name, text)) {
      scenarios.push_back(std::move(scenario));
    }
  };
  if (options.files.empty()) {
    add("standard input", {std::istreambuf_iterator<char>(std::cin), {}});
  }
  for (const std::string& file : options.files) {
    const Result<std::string> text = host::ReadFileOrPipe(file, kMaxScenarioBytes);
    if (!text.ok()) return text.error();
    add(file, *text);
  }
  return options.check ? CheckScenarios(scenarios, out) : RunScenarios(scenarios, out);
}

// The YAML documents of a file, separated by lines of `---`.
std::vector<std::string> SplitDocuments(std::string_view text) {
  std::vector<std::string> documents(1);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (line.starts_with("---") && line.find_first_not_of("- \t\r\n") == std::string_view::npos) {
      documents.emplace_back();
    } else {
      documents.back() += line;
    }
    text.remove_prefix(end);
  }
  return documents;
}

Result<std::vector<Pod>> ReadPods(const std::vector<std::string>& files) {
  std::vector<Pod> pods;
  for (const std::string& file : files) {
    const Result<std::string> text = host::ReadFileOrPipe(file);
    if (!text.ok()) return text.error();
    for (const std::string& document : SplitDocuments(*text)) {
      const Result<std::string> json = host::YamlToJson(document);
      if (!json.ok()) return host::ContentError(json.error(), file);
      if (*json == "null") continue;
      Result<Pod> pod = ParseKubernetesPod(*json);
      if (!pod.ok()) return host::ContentError(pod.error(), file);
      // Manifests have no UID. The same manifest given twice is two pods.
      if (pod->uid.empty()) pod->uid = pod->name + "-" + std::to_string(pods.size());
      if (pod->name_space.empty()) pod->name_space = "default";
      pods.push_back(*std::move(pod));
    }
  }
  return pods;
}

Result<scenario::NodeDescription> ReadNode(const std::string& file) {
  if (file.empty()) {
    Result<Machine> machine = host::ReadMachine("/");
    if (!machine.ok()) return machine.error();
    return scenario::NodeDescription{*std::move(machine), {}, {}};
  }
  const Result<std::string> text = host::ReadFileOrPipe(file);
  if (!text.ok()) return text.error();
  const Result<std::string> json = host::YamlToJson(*text);
  if (!json.ok()) return host::ContentError(json.error(), file);
  Result<scenario::NodeDescription> node = scenario::ParseNode(*json);
  if (!node.ok()) return host::ContentError(node.error(), file);
  return node;
}

Result<int> SimulatePods(const SimulateOptions& options, std::ostream& out) {
  const Result<scenario::NodeDescription> node = ReadNode(options.node);
  if (!node.ok()) return node.error();
  const Result<KubeletConfig> config = host::ReadConfigFileOrPipe(options.config);
  if (!config.ok()) return config.error();
  const Result<std::vector<Pod>> pods = ReadPods(options.files);
  if (!pods.ok()) return pods.error();
  Result<int> planned = PlanPods(*node, *config, *pods, options.explain, options.output, out);
  if (planned.ok() || !planned.error().remedy.empty()) return planned;
  return Error{planned.error().code, planned.error().message, "correct the KubeletConfiguration"};
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* const command = app.add_subcommand(
      "simulate", "Run scenarios, or show where pods would be placed on a node; needs no daemon");
  command
      ->add_option("files", options->files,
                   "Scenarios (one JSON object, or one per line; standard input if none is "
                   "given); with --config, Pod manifests in YAML or JSON")
      ->type_name("FILE");
  CLI::Option* const check =
      command->add_flag("--check", options->check, "Compare with what the scenarios expect");
  CLI::Option* const config =
      command->add_option("--config", options->config, "KubeletConfiguration to plan pods with")
          ->type_name("FILE")
          ->excludes(check);
  command
      ->add_option("--node", options->node,
                   "The node in JSON, as `alignctl topology -o json` prints it, with `devices` "
                   "added if there are any; default: this machine")
      ->type_name("FILE")
      ->needs(config);
  command
      ->add_flag("--explain", options->explain,
                 "Show for each container how its NUMA nodes were chosen")
      ->needs(config);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl simulate --config /var/lib/kubelet/config.yaml pod.yaml",
                         "alignctl simulate --node node.json --config config.yaml -o json pod.yaml",
                         "alignctl simulate --check scenarios.jsonl"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) {
      return options->config.empty() ? SimulateScenarios(*options, out)
                                     : SimulatePods(*options, out);
    };
  });
}

}  // namespace alignd::cli
