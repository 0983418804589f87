// `alignctl topology -o nrt`: the node as a NodeResourceTopology object.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/scenario/scenario.h"

namespace alignd::cli {

// Where the object comes from. A value.
struct ObjectOptions {
  std::string name;      // of the Node object; empty: the host name in lower case
  std::string socket;    // of a running alignd
  bool is_bare = false;  // not from alignd: the machine without containers, as below
  std::string root = "/";
  std::string node;    // a file as ReadDescription, instead of the machine at `root`
  std::string config;  // KubeletConfiguration; empty: the defaults
  bool koordinator_annotations = false;
};

// A node in JSON or YAML, with its devices, or lstopo's XML. Errors: it cannot be read or is none
// of them; as NodeJsonOfLstopo.
Result<scenario::NodeDescription> ReadDescription(const std::string& file);

// The object in JSON. Errors: of control::ControlClient; or the machine or the configuration cannot
// be read, or do not match; or Koordinator's annotations would be too large.
Result<std::string> TopologyObject(const ObjectOptions& options);

}  // namespace alignd::cli
