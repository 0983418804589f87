// Extended resources that a DRA driver serves, of pods whose source does not show the scheduler's
// mapping of resources to requests of a claim.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"
#include "dra/prepared_claims.h"

namespace alignd::cri {

// Whether the container requests resources that a DRA driver may serve.
bool RequestsExtended(const Container& container);

// Removes the resources for which these devices were allocated: the container gets them by their
// CDI names, and no devices of a plugin beside them. `devices`: those that CreateContainer names.
// `listed`: the containers of the pod that are known. Returns the removed names.
// The name of a request has the index of a container in the spec, and of the resource among those
// that this container requests, sorted by name. An init container may have a request of a later
// container. Where the list has no such resource of that container, the index is taken as one of
// the container's own. If it is not the index of an extended resource either, resources without a
// plugin stay: they are refused later, unless --not-devices names them.
// Errors: kUnavailable if one of the container's resources has a plugin then: it is not known
// whether the container is to get devices of that.
// Source: KEP-5004; kube-scheduler, dynamicresources plugin, createRequestsAndMappings.
Result<std::vector<std::string>> RemoveServedByDra(const devicemanager::DeviceState& plugins,
                                                   const std::vector<dra::PreparedDevice>& devices,
                                                   const std::vector<Container>& listed,
                                                   Container& container);

// A pod of which all containers are known, and all that they request.
struct PodSpec {
  std::string uid;
  std::vector<Container> containers;
  // Whether a resize may have added cpu and memory requests: see PodAsk::may_have_added.
  bool may_have_added = false;
  // Resources that only the scheduler counts: neither a plugin nor DRA serves them.
  std::set<std::string> not_devices = {};
};

// The resources of the pod that DRA serves. `devices`: all of its claims. A resource that DRA
// serves on a node is served for the whole pod, and no container of it has a device of a plugin.
// Added requests shift the index: then the names of each container's requests count if they have
// one meaning only, whichever requests were added. The number of devices shows nothing: a request
// of an init container lacks those that it reuses, and a driver may name others than it was asked
// for.
// Errors: kUnavailable as above, if a name is that of no extended resource, or if the names of a
// container have several meanings.
Result<std::vector<std::string>> ServedByDra(const devicemanager::DeviceState& plugins,
                                             const std::vector<dra::PreparedDevice>& devices,
                                             const PodSpec& spec);

void RemoveResources(const std::vector<std::string>& resources, Container& container);

}  // namespace alignd::cri
