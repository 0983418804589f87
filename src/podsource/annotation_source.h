// The resources of a pod from its annotations.
#pragma once

#include "cgroup/cgroup_tree.h"
#include "podsource/resource_source.h"

namespace alignd::podsource {

// Knows pods with one of the annotations of alignd/pod/annotated_resources.h. If a pod has several,
// the first in that header is used. An annotation may refine what CRI shows. If it exceeds or
// contradicts CRI, the pod is refused; but when the kubelet starts the pod or the container again,
// cpu and memory of the container are then those of CRI: a resize does not change an annotation.
//
// A pod's sandbox does not show its huge pages. The limit of its cgroup does, which the kubelet
// sets before. If that limit cannot be read, a pod with huge pages is not known as a whole, but
// container by container, each compared with the sizes of its CreateContainer. So no huge page is
// reserved by an annotation alone.
class AnnotationSource final : public ResourceSource {
 public:
  struct Options {
    // False: extended resources in annotations are ignored, and `source` says so. For nodes whose
    // devices the scheduler allocates, and where authors of pods are not trusted.
    bool extended_resources = true;
    const cgroup::CgroupTree* cgroups = nullptr;  // null: cgroups cannot be read
    bool claims_add_sizes = false;                // see AddedByClaims
  };

  explicit AnnotationSource(const Options& options) : options_(options) {}

  void Ask(const Question& question, Answer answer) override;

 private:
  Result<std::optional<PodAsk>> Know(const Question& question) const;
  // The kubelet starts the pod or the container again: after a resize, cpu and memory are those of
  // CRI. Errors: `contradiction`, if it starts them for the first time.
  Result<std::optional<PodAsk>> Contradicted(const PodAsk& ask, const Question& question,
                                             const Error& contradiction) const;
  // Whether no container of a pod that the kubelet starts again is larger than the annotation says:
  // after a resize, one can be. Before the containers nothing shows which one, and another
  // container does not show it either. Such a pod is not known as a whole.
  Result<Done> RequireNoLargerContainer(const PodAsk& ask, const Question& question) const;
  Result<std::optional<PodAsk>> KnowExtended(const Question& question,
                                             const std::string& text) const;

  const Options options_;
};

}  // namespace alignd::podsource
