// What `alignctl simulate` plans with: manifests, a node, and the pods that it has already.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"
#include "alignd/placement/policy_flags.h"

namespace alignd::cli {

struct PlanSources {
  std::vector<std::string> files;    // manifests: files, directories, "-" for standard input
  std::vector<std::string> running;  // the same, of pods that run on the node
  // A description and its Node object, or objects of a cluster; empty: this machine.
  std::vector<std::string> nodes;
  bool from_cluster = false;          // instead: the objects of the API server
  std::string kubeconfig = {};        // for it, as ReadCluster
  std::string node_name = {};         // of several nodes in the objects; empty: there is one
  std::string root;                   // instead: a directory with sys/; empty: none
  std::vector<std::string> devices;   // as placement::ParseDevices
  std::string state_dir;              // empty: none
  std::string device_checkpoint;      // empty: looked for in the state directory
  std::string config;                 // empty: the objects say how the node decides
  placement::PolicyFlags flags = {};  // as FleetSources
};

// Of a file without a document, such as one that was written in part.
enum class IfEmpty {
  kSkip,   // it is noted in Manifests::skipped
  kError,  // its pods would be left out of those that run
};

// Reads every document of every file. Of a directory, the files *.yaml, *.yml and *.json in it are
// read, in order of their names.
// Errors: a file that cannot be read, or that is no manifest; a directory without one.
Result<placement::Manifests> ReadManifests(const std::vector<std::string>& files,
                                           IfEmpty if_empty = IfEmpty::kSkip);

// Why there is nothing to plan: no pods, and what has been skipped.
Error NoPods(const placement::Manifests& manifests);

// The node with its devices, and the pods that run on it. Of objects of a cluster, as
// placement::ClusterObjects.
// Errors: what is wrong with an input, or with how they fit together; as ReadCluster.
Result<placement::PlannedNode> ReadPlannedNode(const PlanSources& sources);

}  // namespace alignd::cli
