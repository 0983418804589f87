// Where alignd learns the resources of a pod: CRI does not carry Kubernetes' requests. There are
// several sources; `FirstThatKnows` puts them in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// A pod with all its containers, or with one container alone.
struct PodAsk {
  Pod pod;
  std::string source;  // for `alignctl explain`: "annotation alignd.io/resources"
  // Whether the source knows which extended resources a DRA driver serves: `pod` is without them.
  bool knows_dra = false;
  // Every container of the pod's spec, in its order, with everything that it requests. Empty: the
  // source does not know that.
  std::vector<Container> spec = {};
  // Whether cpu and memory requests of `spec` may have been added since the pod was scheduled.
  bool may_have_added = false;
  // Whether CPU and memory of `pod` are from CRI: see EstimateContainer.
  bool is_estimate = false;
  // Whether the pod has pod-level resources by its spec or annotation, although `is_estimate`.
  bool states_pod_level = false;
  // Whether they are from an annotation, which the author of the pod can change while it runs: if
  // `is_estimate`, the memory request alone is.
  bool is_annotated = false;
  // App containers of the pod, by name, also those that `pod` lacks. None of them is an init
  // container, whatever is known of the roles of others.
  std::set<std::string> apps = {};
  // The source concludes which init containers are sidecars from their sizes.
  bool roles_are_concluded = false;
};

inline std::set<std::string> AppContainers(const Pod& pod) {
  std::set<std::string> names;
  for (const Container& container : pod.containers) {
    if (container.kind == ContainerKind::kApp) names.insert(container.name);
  }
  return names;
}

// The kubelet's request for which the resources are needed.
struct Question {
  // Includes the pod's UID. Never null.
  std::shared_ptr<const runtime::v1::PodSandboxConfig> sandbox;
  // The container that is to be created; null at RunPodSandbox.
  std::shared_ptr<const runtime::v1::ContainerConfig> container;
  // A source writes here why it failed, for example because the kubelet does not answer. It becomes
  // part of PodAsk::source, so that `alignctl explain` shows why a pod has no devices. May be null.
  std::shared_ptr<std::string> remarks = nullptr;
};

// Thread-safe.
class ResourceSource {
 public:
  using Answer = std::function<void(Result<std::optional<PodAsk>>)>;

  virtual ~ResourceSource() = default;

  // Without a container in the question, answers the whole pod. With a container, answers the whole
  // pod including that container, or that container alone. nullopt: this source does not know the
  // pod; the next source is asked. An error refuses the pod: kInvalidArgument, naming the faulty
  // text or both sides of a contradiction. Returns at once. `answer` runs exactly once, perhaps
  // before Ask returns, on any thread, and must not block.
  virtual void Ask(const Question& question, Answer answer) = 0;
};

}  // namespace alignd::podsource
