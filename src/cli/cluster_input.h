// The objects of a cluster, listed from its API server.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/placement/cluster_objects.h"
#include "events/api_client.h"

namespace alignd::cli {

// All Nodes, NodeResourceTopology objects and Pods. `kubeconfig`: the credential; empty: the file
// that the variable KUBECONFIG names, ~/.kube/config, or the service account of the pod in which
// the program runs, the first that is there. Errors: no credential, or one that cannot be used; as
// ListCluster.
Result<placement::ClusterObjects> ReadCluster(const std::string& kubeconfig);

// The same through that reader.
// Errors: kUnavailable: a list that the API server refuses, or that does not arrive whole;
// kInvalidArgument: an object that cannot be read, but for pods with faults, which make their node
// undecided; a NodeResourceTopology without its Node.
Result<placement::ClusterObjects> ListCluster(events::ApiReader& reader);

}  // namespace alignd::cli
