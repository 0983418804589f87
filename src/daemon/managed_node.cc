#include "daemon/managed_node.h"

#include <string>
#include <utility>

#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "alignd/scenario/scenario.h"
#include "host/config_file.h"
#include "host/file.h"
#include "host/sysfs_machine.h"

namespace alignd::daemon {
namespace {

Result<Machine> ReadMachine(const Options& options) {
  if (options.node.empty()) return host::ReadMachine(options.root);
  const Result<std::string> text = host::ReadFileOrPipe(options.node);
  if (!text.ok()) return text.error();
  Result<scenario::NodeDescription> node = scenario::ParseNode(*text);
  if (!node.ok()) return host::ContentError(node.error(), options.node);
  return std::move(node->machine);
}

}  // namespace

Result<admission::Node> MakeNode(const Options& options) {
  Result<Machine> machine = ReadMachine(options);
  if (!machine.ok()) return machine.error();
  Result<KubeletConfig> config = options.config.empty() ? Result<KubeletConfig>(KubeletConfig())
                                                        : host::ReadConfigFile(options.config);
  if (!config.ok()) return config.error();
  return MakeNode(options, *std::move(machine), *std::move(config));
}

Result<admission::Node> MakeNode(const Options& options, Machine machine, KubeletConfig config) {
  if (options.compatibility) config.compatibility = *options.compatibility;
  // The decisions are made in `alignctl simulate` and `plan` only. Quotas, resizes, metrics and the
  // pod resources service do not yet know CPUs that the containers of a pod share.
  if (PodLevelResourceManagersOn(config)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the feature gate PodLevelResourceManagers is on, and the daemon does not support "
                 "it",
                 "set featureGates: {PodLevelResourceManagers: false}; containers of pods with "
                 "pod-level resources then run in the shared pool"};
  }
  Result<admission::Node> node = admission::Node::Make(std::move(machine), std::move(config));
  if (node.ok() || !node.error().remedy.empty()) return node;
  return Error{node.error().code, node.error().message,
               "correct the KubeletConfiguration that --config names, or the kubelet's own"};
}

}  // namespace alignd::daemon
