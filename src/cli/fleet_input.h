// The nodes that `alignctl fit` plans with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/policy_flags.h"

namespace alignd::cli {

struct FleetSources {
  std::vector<std::string> nodes;  // files, directories, "-" for standard input
  std::string config;              // of nodes that have none; empty: none
  // Of the alignd of all nodes; not of those that are known from objects that say it themselves.
  placement::PolicyFlags flags = {};
  std::vector<std::string> devices;  // of all nodes, as placement::ParseDevices
  bool from_cluster = false;         // in place of `nodes`: those of the API server
  std::string kubeconfig = {};       // for it, as ReadCluster
  int stop = -1;                     // as in LstopoLimits
};

// A KubeletConfiguration for all nodes, as JSON, with the flags; empty if `file` is.
// Errors: what is wrong with the file.
Result<std::string> ReadSharedConfig(const std::string& file, const placement::PolicyFlags& flags);

// A state file of a node; empty: there is none.
// Errors: it cannot be read, or is empty, as after a copy that broke off.
Result<std::string> ReadStateFile(const std::filesystem::path& path);

// All nodes, in the order of the names of files and directories.
// - A file has descriptions of nodes, or nodes with all their parts (placement::ReadFleetNode). A
//   description is named after its file.
// - A directory in a directory is one node, named after it, and so is a directory with
//   sys/devices/system. Its files are recognized by their content: a description (or
//   sys/devices/system of the node), a KubeletConfiguration, a Node object, manifests of pods that
//   run. State files have the kubelet's names.
// - A file or a directory of a node can have a NodeResourceTopology object instead, with its Node
//   and pods (placement::ClusterObjects). Objects in files are put together by the names of their
//   nodes, and come after the other nodes. One that cannot be used is the problem of its node.
// - Of *.xml in a directory, those are ignored that are XML of another program than lstopo.
// `notes`: what was left out; nullptr: not wanted.
// Errors: what is wrong with an input; as ReadCluster; the cluster has no Node.
Result<std::vector<placement::FleetNode>> ReadFleet(const FleetSources& sources,
                                                    std::vector<std::string>* notes = nullptr);

}  // namespace alignd::cli
