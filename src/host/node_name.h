// How the kubelet names its Node.
#pragma once

#include <string>

namespace alignd::host {

// The host name in lower case: the kubelet's name for its Node without --hostname-override. Empty:
// not known.
std::string DefaultNodeName();

}  // namespace alignd::host
