// What a pod's annotations say of its resources.
#pragma once

#include "podsource/resource_source.h"

namespace alignd::podsource {

// Knows pods with one of the annotations of alignd/pod/annotated_resources.h; of several the first
// named there counts. An annotation is its author's word: it may refine what CRI shows, never
// exceed or contradict it; else the pod is refused.
class AnnotationSource final : public ResourceSource {
 public:
  struct Options {
    // False: what annotations say of extended resources is left out, and `source` says so. For
    // nodes whose devices the scheduler counts, and where authors of pods are not to be believed.
    bool extended_resources = true;
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
