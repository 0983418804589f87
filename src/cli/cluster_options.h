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
      // Such as of a variable that is not set: the default could be another cluster.
      ->check([](const std::string& file) {
        return file.empty() ? std::string("is empty; name a file, or leave the option out") : "";
      })
      ->needs(flag);
}

}  // namespace alignd::cli
