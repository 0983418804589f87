// How the kubelet names its Node, and which names objects of the API server can have.
#pragma once

#include <string>

namespace alignd::host {

// The host name in lower case: the kubelet's name for its Node without --hostname-override. Empty:
// not known.
std::string DefaultNodeName();

// Whether a Node, a pod or a namespace can have the name: it becomes a part of a URL.
bool IsObjectName(const std::string& name);

}  // namespace alignd::host
