// The node that alignd manages.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "daemon/options.h"
#include "daemon/start_problem.h"
#include "host/config_file.h"

namespace alignd::daemon {

struct CheckedNode {
  std::optional<admission::Node> node;  // nullopt: there are problems
  host::ConfigFile config;              // as far as it could be read
  std::string config_text;              // of that file; empty: there is none
  // In the order of a start. A configuration that cannot be read is not compared with the machine.
  std::vector<StartProblem> problems;
};

// This machine, with CPUs that are offline as far as they are known, or that of --node; with the
// configuration of --config.
CheckedNode CheckNode(const Options& options);

// A node, and the text of the configuration that it has: the file is read once, as it may change
// at any time.
struct ConfiguredNode {
  admission::Node node;
  std::string config_text;  // empty: there is no --config
};

// As CheckNode. Errors: the first problem.
Result<ConfiguredNode> ReadNode(const Options& options);
Result<admission::Node> MakeNode(const Options& options);

// The same machine with this configuration, which errors call `file`. Errors: the first problem.
Result<admission::Node> MakeNode(const Options& options, Machine machine, KubeletConfig config,
                                 const std::filesystem::path& file);

}  // namespace alignd::daemon
