#include "daemon/managed_node.h"

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/config_problems.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/resource_name.h"
#include "alignd/scenario/scenario.h"
#include "daemon/known_cpus.h"
#include "host/config_file.h"
#include "host/file.h"
#include "host/sysfs_machine.h"

namespace alignd::daemon {
namespace {

Result<Machine> ReadMachine(const Options& options) {
  if (options.node.empty()) {
    Result<Machine> online = host::ReadMachine(options.root);
    if (!online.ok()) return online;
    return WithKnownCpus(*std::move(online), options.root, options.state_dir);
  }
  const Result<std::string> text = host::ReadFileOrPipe(options.node);
  if (!text.ok()) return text.error();
  Result<scenario::NodeDescription> node = scenario::ParseNode(*text);
  if (!node.ok()) return host::ContentError(node.error(), options.node);
  return std::move(node->machine);
}

void Add(const ConfigProblem& problem, const std::filesystem::path& file,
         std::vector<StartProblem>& problems) {
  StartProblem& added =
      problems.emplace_back(StartProblem{file, problem.field, problem.value, problem.error});
  if (added.error.remedy.empty()) {
    added.error.remedy =
        "correct the KubeletConfiguration that --config names, or the kubelet's own";
  }
}

// The configuration could not be read in all: what is wrong with the rest of it in any case.
void AddProblemsOfValues(const Machine& machine, const std::filesystem::path& file,
                         CheckedNode& checked) {
  std::set<std::string> wrong;
  for (const StartProblem& problem : checked.problems) wrong.insert(problem.field);
  if (wrong.contains("")) return;  // it could not be read at all
  for (const ConfigProblem& problem :
       admission::FindProblemsOfValues(machine, checked.config.config, wrong)) {
    Add(problem, file, checked.problems);
  }
}

// Makes the node, or adds what is wrong with the configuration, which is in `file`, for this
// machine.
void Combine(const Options& options, const std::filesystem::path& file, Result<Machine> machine,
             CheckedNode& checked) {
  KubeletConfig& config = checked.config.config;
  if (options.compatibility) config.compatibility = *options.compatibility;
  if (options.pod_policies) {
    config.pod_policies = *options.pod_policies;
    if (config.pod_policies.empty()) LetNoPodsChoose(config);  // off, in all namespaces
  }
  if (options.shared_pool_handlers) {
    config.shared_pool_handlers = SharedPoolHandlers(*options.shared_pool_handlers);
  }
  if (options.not_devices) {
    config.not_devices = *options.not_devices;
    // The flag has always had them without effect (start_warnings.cc). The field refuses them, also
    // in an object.
    erase_if(config.not_devices,
             [](const std::string& name) { return !CheckNotDevice(name).ok(); });
  }
  if (options.annotated_extended_resources) {
    config.annotated_extended_resources = *options.annotated_extended_resources;
  }
  if (!machine.ok()) return;
  if (!checked.problems.empty()) return AddProblemsOfValues(*machine, file, checked);
  for (const ConfigProblem& problem : admission::FindProblems(*machine, config)) {
    Add(problem, file, checked.problems);
  }
  if (!checked.problems.empty()) return;
  Result<admission::Node> node = admission::Node::Make(*std::move(machine), config);
  if (node.ok()) {
    node->allocates_devices_with_pod = true;
    checked.node = *std::move(node);
  } else {
    Add({"", "", node.error()}, file, checked.problems);
  }
}

Result<admission::Node> NodeOf(CheckedNode checked) {
  if (!checked.node) return checked.problems.front().AsError();
  return *std::move(checked.node);
}

}  // namespace

Error StartProblem::AsError() const {
  std::string place = file.empty() || error.message.find(file.string()) != std::string::npos
                          ? std::string()
                          : file.string() + ": ";
  if (!field.empty() && !error.message.starts_with(field)) {
    place += field + " (" + (value.empty() ? "not set" : value) + "): ";
  }
  return {error.code, place + error.message, error.remedy};
}

CheckedNode CheckNode(const Options& options) {
  CheckedNode checked;
  Result<Machine> machine = ReadMachine(options);
  if (!machine.ok()) checked.problems.push_back({options.node, "", "", machine.error()});
  if (!options.config.empty()) {
    host::CheckedConfigFile file = host::CheckConfigFile(options.config);
    for (const ConfigProblem& problem : file.problems) {
      Add(problem, options.config, checked.problems);
    }
    checked.config = std::move(file.file);
    checked.config_text = std::move(file.text);
  }
  Combine(options, options.config, std::move(machine), checked);
  return checked;
}

Result<ConfiguredNode> ReadNode(const Options& options) {
  CheckedNode checked = CheckNode(options);
  std::string text = std::move(checked.config_text);
  Result<admission::Node> node = NodeOf(std::move(checked));
  if (!node.ok()) return node.error();
  return ConfiguredNode{*std::move(node), std::move(text)};
}

Result<admission::Node> MakeNode(const Options& options) { return NodeOf(CheckNode(options)); }

Result<admission::Node> MakeNode(const Options& options, Machine machine, KubeletConfig config,
                                 const std::filesystem::path& file) {
  CheckedNode checked;
  checked.config.config = std::move(config);
  Combine(options, file, std::move(machine), checked);
  return NodeOf(std::move(checked));
}

}  // namespace alignd::daemon
