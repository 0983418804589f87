// The objects of a cluster, listed from its API server.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/cluster_objects.h"
#include "apiserver/api_client.h"

namespace alignd::cli {

struct ListedCluster {
  placement::ClusterObjects objects;  // with at least one Node
  std::vector<std::string> notes;     // what was left out
};

// All Nodes, NodeResourceTopology objects and Pods. `kubeconfig`: the credential; empty: the file
// that the variable KUBECONFIG names, ~/.kube/config, or the service account of the pod in which
// the program runs, the first that is there. Errors: no credential, or one that cannot be used; as
// ListCluster.
Result<ListedCluster> ReadCluster(const std::string& kubeconfig);

// The same through that reader.
// A NodeResourceTopology object without a Node is of a node that has gone: it is left out.
// Errors: kUnavailable: a list that the API server refuses, or that does not arrive whole;
// kNotFound: the cluster has no Node.
Result<ListedCluster> ListCluster(apiserver::ApiReader& reader);

}  // namespace alignd::cli
