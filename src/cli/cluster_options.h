// The options of commands that can read the nodes from the API server.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace alignd::cli {

// --from-cluster and --kubeconfig.
inline void AddClusterOptions(CLI::App& command, bool& from_cluster, std::string& kubeconfig) {
  CLI::Option* const flag =
      command.add_flag("--from-cluster", from_cluster,
                       "Nodes, and the pods that run on them, from the API server: Node, Pod and "
                       "NodeResourceTopology objects");
  command
      .add_option("--kubeconfig", kubeconfig,
                  "The credential for --from-cluster; default: the file in $KUBECONFIG, "
                  "~/.kube/config, or the service account of the pod")
      ->type_name("FILE")
      ->needs(flag);
}

}  // namespace alignd::cli
