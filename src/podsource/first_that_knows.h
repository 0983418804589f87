// Several sources of resources as one: the first that knows a pod wins.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "podsource/resource_source.h"

namespace alignd::podsource {

class FirstThatKnows final : public ResourceSource {
 public:
  explicit FirstThatKnows(std::vector<std::unique_ptr<ResourceSource>> sources)
      : sources_(std::move(sources)) {}

  // Answers nullopt if no source knows the pod. The first error is the answer: a pod with a
  // malformed annotation is not estimated instead.
  void Ask(const Question& question, Answer answer) override;

 private:
  void AskFrom(size_t first, const Question& question, const Answer& answer);

  const std::vector<std::unique_ptr<ResourceSource>> sources_;
};

}  // namespace alignd::podsource
