// The devices that DRA has allocated, for the decision about a pod.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// Adds to the pod the devices that DRA has allocated to it, unless nothing of it aligns with
// devices, or the container has its assignment already. Extended resources that DRA serves are
// removed, unless the source knows them (extended_resources.h). `config` is the container that is
// to be created, with the CDI names that the kubelet gives it; null at RunPodSandbox. With topology
// scope pod, and in a pod of one container, the devices are those of all claims that the kubelet
// has had prepared for the pod. Otherwise CRI alone shows which container has which device, when
// the container is created: the pod is reduced to that container. `done` runs once, perhaps before
// this returns, and on any thread. Errors, all kUnavailable: it is not known which devices the pod
// has, or where they are. At CreateContainer with topology policy best-effort, the pod goes on
// without them, with a line in the log.
void FindClaimed(const HandlerContext& context, podsource::PodAsk ask,
                 const runtime::v1::ContainerConfig* config,
                 std::function<void(Result<podsource::PodAsk>)> done);

// For a resize of CPUs of these containers: adds the devices of all claims of the pod to the pod
// itself. With topology scope container, also adds those of the containers whose CDI names are
// known, with the devices of each one: CRI does not show them here. `pod` has the name and the UID.
// `done` as above. Errors: kUnavailable, as above, but not with topology policy best-effort.
void FindClaimedOfPod(const HandlerContext& context, Pod pod,
                      const std::set<std::string>& containers,
                      std::function<void(Result<Pod>)> done);

// Records by which CDI names the container has devices. Call when the runtime has created it.
void RecordCdiNames(const HandlerContext& context, const ContainerKey& key,
                    const runtime::v1::ContainerConfig& config);

}  // namespace alignd::cri
