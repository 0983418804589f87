// Sandboxes and containers as a kubelet sends them over CRI, and the answers of the sources of
// resources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/pod/pod.h"
#include "podsource/annotation_source.h"
#include "podsource/cri_estimate.h"
#include "podsource/first_that_knows.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

inline constexpr int64_t kMi = 1024 * 1024;

inline runtime::v1::PodSandboxConfig Sandbox(const std::string& parent = "/kubepods/pod1") {
  runtime::v1::PodSandboxConfig sandbox;
  sandbox.mutable_metadata()->set_uid("uid");
  sandbox.mutable_metadata()->set_name("name");
  sandbox.mutable_metadata()->set_namespace_("space");
  sandbox.mutable_linux()->set_cgroup_parent(parent);
  return sandbox;
}

inline runtime::v1::PodSandboxConfig Annotated(const std::string& text,
                                               const std::string& parent = "/kubepods/pod1",
                                               const std::string& key = "alignd.io/resources") {
  runtime::v1::PodSandboxConfig sandbox = Sandbox(parent);
  (*sandbox.mutable_annotations())[key] = text;
  return sandbox;
}

inline runtime::v1::ContainerConfig Sized(int64_t shares, int64_t quota, int64_t memory) {
  runtime::v1::ContainerConfig container;
  container.mutable_metadata()->set_name("app");
  runtime::v1::LinuxContainerResources& resources = *container.mutable_linux()->mutable_resources();
  resources.set_cpu_period(100'000);
  resources.set_cpu_shares(shares);
  resources.set_cpu_quota(quota);
  resources.set_memory_limit_in_bytes(memory);
  return container;
}

// With the sizes that the kubelet sets; a limit of 0 is none.
inline runtime::v1::ContainerConfig Kubelet(int64_t request_millis, int64_t limit_millis,
                                            int64_t memory, const std::string& name = "app") {
  const int64_t quota = limit_millis == 0 ? 0 : std::max<int64_t>(1000, limit_millis * 100);
  runtime::v1::ContainerConfig container =
      Sized(std::max<int64_t>(2, request_millis * 1024 / 1000), quota, memory);
  container.mutable_metadata()->set_name(name);
  return container;
}

inline std::string Text(const ResourceList& list) {
  std::string text;
  for (const auto& [name, quantity] : list) text += name + "=" + quantity.ToString() + " ";
  return text;
}

// Waits for the answer.
inline Result<std::optional<PodAsk>> AskFor(
    ResourceSource& source, const runtime::v1::PodSandboxConfig& sandbox,
    const runtime::v1::ContainerConfig* container = nullptr) {
  Question question{std::make_shared<const runtime::v1::PodSandboxConfig>(sandbox), nullptr};
  if (container != nullptr) {
    question.container = std::make_shared<const runtime::v1::ContainerConfig>(*container);
  }
  std::promise<Result<std::optional<PodAsk>>> answer;
  source.Ask(question,
             [&](Result<std::optional<PodAsk>> known) { answer.set_value(std::move(known)); });
  return answer.get_future().get();
}

// The sources without the kubelet's Pods API: annotations, then the estimate.
inline std::unique_ptr<ResourceSource> AnnotationsAndEstimate(
    const AnnotationSource::Options& options = {}) {
  std::vector<std::unique_ptr<ResourceSource>> sources;
  sources.push_back(std::make_unique<AnnotationSource>(options));
  sources.push_back(std::make_unique<CriEstimate>(options.claims_add_sizes));
  return std::make_unique<FirstThatKnows>(std::move(sources));
}

inline Result<std::optional<PodAsk>> PodOfSandbox(const runtime::v1::PodSandboxConfig& sandbox) {
  return AskFor(*AnnotationsAndEstimate(), sandbox);
}

inline Result<PodAsk> PodOfContainer(const runtime::v1::PodSandboxConfig& sandbox,
                                     const runtime::v1::ContainerConfig& container,
                                     const AnnotationSource::Options& options = {}) {
  Result<std::optional<PodAsk>> known =
      AskFor(*AnnotationsAndEstimate(options), sandbox, &container);
  if (!known.ok()) return known.error();
  return **std::move(known);
}

}  // namespace alignd::podsource
