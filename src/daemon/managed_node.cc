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
  if (options.compatibility) config->compatibility = *options.compatibility;
  Result<admission::Node> node = admission::Node::Make(*std::move(machine), *std::move(config));
  if (node.ok()) node->allocates_devices_with_pod = true;
  if (node.ok() || !node.error().remedy.empty()) return node;
  return Error{node.error().code, node.error().message,
               "correct the KubeletConfiguration that --config names, or the kubelet's own"};
}

}  // namespace alignd::daemon
