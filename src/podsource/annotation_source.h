// What a pod's annotations say of its resources.
#pragma once

#include "cgroup/cgroup_tree.h"
#include "podsource/resource_source.h"

namespace alignd::podsource {

// Knows pods with one of the annotations of alignd/pod/annotated_resources.h; of several the first
// named there counts. An annotation is its author's word: it may refine what CRI shows, never
// exceed or contradict it; else the pod is refused.
//
// A pod's sandbox does not show its huge pages. The limit of its cgroup does, which the kubelet
// sets before. Where that cannot be read, a pod with huge pages is not known as a whole, but
// container by container, each compared with what it is created with: nothing is reserved on a word
// alone.
class AnnotationSource final : public ResourceSource {
 public:
  struct Options {
    // False: what annotations say of extended resources is left out, and `source` says so. For
    // nodes whose devices the scheduler counts, and where authors of pods are not to be believed.
    bool extended_resources = true;
    const cgroup::CgroupTree* cgroups = nullptr;  // null: cgroups cannot be read
  };

  explicit AnnotationSource(const Options& options) : options_(options) {}

  void Ask(const Question& question, Answer answer) override;

 private:
  Result<std::optional<PodAsk>> Know(const Question& question) const;
  Result<std::optional<PodAsk>> KnowExtended(const Question& question,
                                             const std::string& text) const;

  const Options options_;
};

}  // namespace alignd::podsource
