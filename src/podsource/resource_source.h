// Where alignd learns what a pod asks for: CRI does not carry Kubernetes' requests. Each source is
// one way to know; `FirstThatKnows` puts them in order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// What is known of a pod: all of it, or one container alone.
struct PodAsk {
  Pod pod;
  std::string source;  // who said so, for `alignctl explain`: "annotation alignd.io/resources"
};

// What the kubelet told when the question came up.
struct Question {
  // With the pod's UID in it. Never null.
  std::shared_ptr<const runtime::v1::PodSandboxConfig> sandbox;
  // The container that is to be created; null at RunPodSandbox, before there is any.
  std::shared_ptr<const runtime::v1::ContainerConfig> container;
  // Where a source says why it does not know what it should: a kubelet that does not answer. It
  // becomes part of PodAsk::source, so that whoever asks why a pod has no devices can read it. May
  // be null.
  std::shared_ptr<std::string> remarks = nullptr;
};

// Thread-safe.
class ResourceSource {
 public:
  using Answer = std::function<void(Result<std::optional<PodAsk>>)>;

  virtual ~ResourceSource() = default;

  // Without a container in the question: the whole pod. With one: the whole pod, that container
  // among its containers, or that container alone. nullopt: this source does not know, ask the
  // next. An error refuses the pod: kInvalidArgument with the place of the fault or of the
  // contradiction.
  // Returns at once. `answer` runs exactly once, perhaps before Ask returns, on any thread, and
  // must not block.
  virtual void Ask(const Question& question, Answer answer) = 0;
};

}  // namespace alignd::podsource
