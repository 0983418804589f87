#include "podsource/annotation_source.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/cri_agreement.h"
#include "alignd/pod/init_roles.h"
#include "alignd/pod/resource_name.h"
#include "cgroup/cgroup_path.h"
#include "podsource/cri_estimate.h"
#include "podsource/cri_sizes.h"

namespace alignd::podsource {
namespace {

using runtime::v1::PodSandboxConfig;

std::string NameOf(std::string_view annotation) { return "annotation " + std::string(annotation); }

const std::string* FindAnnotation(const PodSandboxConfig& sandbox, std::string_view key) {
  const auto found = sandbox.annotations().find(std::string(key));
  return found == sandbox.annotations().end() ? nullptr : &found->second;
}

// Whether there were any.
bool RemoveExtended(std::vector<Container>& containers) {
  size_t removed = 0;
  const auto extended = [](const auto& entry) { return IsExtendedResource(entry.first); };
  for (Container& container : containers) {
    removed += std::erase_if(container.resources.requests, extended);
    removed += std::erase_if(container.resources.limits, extended);
  }
  return removed > 0;
}

// Whether the kubelet has started the pod or the container before: it may have been resized since,
// which no annotation shows.
bool MayBeResized(const Question& question) {
  const bool is_of_kubelet =
      QosOfCgroupParent(question.sandbox->linux().cgroup_parent()).has_value();
  return is_of_kubelet && (question.sandbox->metadata().attempt() > 0 ||
                           (question.container && question.container->metadata().attempt() > 0));
}

// The question's container; null: the annotation does not name it, or the question is about the
// pod.
const Container* FindAsked(const Pod& pod, const Question& question) {
  if (!question.container) return nullptr;
  const auto found =
      std::ranges::find(pod.containers, question.container->metadata().name(), &Container::name);
  return found == pod.containers.end() ? nullptr : &*found;
}

bool HasInitContainers(const Pod& pod) {
  return std::ranges::find(pod.containers, ContainerKind::kInit, &Container::kind) !=
         pod.containers.end();
}

// As the kubelet creates ephemeral containers (`kubectl debug`).
bool IsUnsized(const runtime::v1::ContainerConfig& container) {
  const CriSizes cri = SizesIn(container.linux().resources());
  return MillisFromShares(cri.cpu_shares) == 0 && cri.cpu_quota <= 0 && cri.memory_limit <= 0 &&
         cri.hugepages.empty();
}

// A container that the annotation does not name is estimated, and adds to the annotated containers.
Result<Done> RequireUnnamedFits(const Pod& pod, const Question& question, const std::string& author,
                                bool claims_add_sizes) {
  Pod together = pod;
  together.containers.push_back(
      EstimateContainer(*question.sandbox, *question.container, claims_add_sizes)
          .pod.containers.front());
  const Result<Done> fits =
      RequireKubeletAllocated(together, SizesIn(question.sandbox->linux().resources()), author);
  if (fits.ok()) return fits;
  Error error = fits.error();
  error.remedy = "name every container of the pod in the annotation";
  return error;
}

Result<Done> RequireContainerAgrees(const Pod& pod, const Container& stated,
                                    const Question& question, const std::string& author,
                                    bool claims_add_sizes) {
  const CriSizes cri = SizesIn(question.container->linux().resources());
  // A client other than a kubelet may send no sizes and rely on the annotation.
  const bool is_sized = cri.cpu_shares > 0 || cri.cpu_quota != 0 || cri.memory_limit > 0;
  if (!pod.stated_qos && !is_sized) return Done{};
  // For other containers of such a pod, CRI shows sizes of the pod. They get nothing of their own.
  if (!IsEligible(pod, stated)) return Done{};
  return RequireAgreement(stated, QosOf(pod), cri, author,
                          {.to_quota = claims_add_sizes, .to_memory = claims_add_sizes});
}

// Which init containers of `intel.com/resources` are sidecars. They are found by comparing sizes
// with those of the sandbox. After a resize, the annotation has other sizes than the sandbox, and a
// sidecar that runs could be taken for an init container that has ended.
Result<Done> FindRoles(Pod& pod, const Question& question, const std::string& author) {
  const bool is_unnamed = question.container && FindAsked(pod, question) == nullptr;
  if (!is_unnamed && MayBeResized(question) && HasInitContainers(pod)) {
    return Error{ErrorCode::kInvalidArgument,
                 author +
                     ": does not say which init containers are sidecars; the pod was started "
                     "before, so its sizes may be those of before a resize",
                 "use the annotation alignd.io/resources, which names the sidecars"};
  }
  return FindSidecars(pod, SizesIn(question.sandbox->linux().resources()), author);
}

// The error of an annotation's text.
Error Faulty(const Error& error, const std::string& author) {
  Error faulty = error.In(author);
  if (faulty.remedy.empty()) faulty.remedy = "correct the annotation";
  return faulty;
}

// Whether the kubelet allocated as many huge pages for the pod; nullopt: that cannot be read.
// Errors: kInvalidArgument if it allocated fewer.
Result<std::optional<Done>> RequireAllocatedHugepages(const Pod& pod,
                                                      const PodSandboxConfig& sandbox,
                                                      const cgroup::CgroupTree* cgroups,
                                                      const std::string& author) {
  const ResourceList peaks = HugepagePeaks(pod);
  if (peaks.empty()) return std::optional(Done{});
  const Result<std::string> path = cgroup::PathOfParent(sandbox.linux().cgroup_parent());
  if (cgroups == nullptr || !path.ok() || !cgroup::IsOfPod(*path, pod.uid)) {
    return std::optional<Done>();
  }
  for (const auto& [resource, peak] : peaks) {
    const Result<int64_t> limit = cgroups->ReadHugepageLimit(*path, PageSizeOf(resource));
    if (!limit.ok()) return std::optional<Done>();
    if (peak.Value() <= *limit) continue;
    return Error{ErrorCode::kInvalidArgument,
                 author + ": the pod's limits." + resource + " are " +
                     std::to_string(peak.Value()) + " bytes, but its cgroup may have " +
                     std::to_string(*limit),
                 "correct the annotation, or the webhook that writes it"};
  }
  return std::optional(Done{});
}

}  // namespace

void AnnotationSource::Ask(const Question& question, Answer answer) { answer(Know(question)); }

Result<std::optional<PodAsk>> AnnotationSource::Know(const Question& question) const {
  using Parse = Result<std::vector<Container>> (*)(std::string_view);
  for (const auto& [key, parse] : std::initializer_list<std::pair<std::string_view, Parse>>{
           {kResourcesAnnotation, &ParseAnnotatedResources},
           {kIntelResourcesAnnotation, &ParseIntelResources}}) {
    const std::string* const text = FindAnnotation(*question.sandbox, key);
    if (text == nullptr) continue;
    const std::string author = NameOf(key);
    Result<std::vector<Container>> containers = parse(*text);
    if (!containers.ok()) return Faulty(containers.error(), author);
    PodAsk ask{PodWithoutContainers(*question.sandbox), author};
    ask.is_annotated = true;
    ask.pod.containers = *std::move(containers);
    if (key == kResourcesAnnotation) {
      Result<std::optional<Resources>> own = ParseAnnotatedPodLevel(*text, ask.pod.containers);
      if (!own.ok()) return Faulty(own.error(), author);
      ask.pod.pod_level = *std::move(own);
    }
    if (!options_.extended_resources && RemoveExtended(ask.pod.containers)) {
      ask.source += " without extended resources";
    }
    if (key == kIntelResourcesAnnotation) {
      ask.roles_are_concluded = true;
      const Result<Done> found = FindRoles(ask.pod, question, author);
      if (!found.ok()) return Contradicted(ask, question, found.error());
    }
    const Result<Done> agrees = RequireQos(ask.pod, author);
    if (!agrees.ok()) return agrees.error();
    const Result<Done> allocated =
        RequireKubeletAllocated(ask.pod, SizesIn(question.sandbox->linux().resources()), author);
    if (!allocated.ok()) return Contradicted(ask, question, allocated.error());
    // Of one that the annotation does not name, CRI says everything.
    const Container* const stated = FindAsked(ask.pod, question);
    const Result<Done> none_larger = question.container && stated == nullptr
                                         ? Result<Done>(Done{})
                                         : RequireNoLargerContainer(ask, question);
    if (!none_larger.ok() && !question.container) return std::optional<PodAsk>();
    const Result<std::optional<Done>> hugepages =
        RequireAllocatedHugepages(ask.pod, *question.sandbox, options_.cgroups, author);
    if (!hugepages.ok()) return hugepages.error();
    const bool whole = hugepages->has_value();
    if (!question.container) return whole ? std::optional(std::move(ask)) : std::nullopt;
    if (stated == nullptr) {
      const Result<Done> fits =
          RequireUnnamedFits(ask.pod, question, author, options_.claims_add_sizes);
      if (!fits.ok()) return fits.error();
      return std::optional<PodAsk>();
    }
    const Result<Done> same =
        RequireContainerAgrees(ask.pod, *stated, question, author, options_.claims_add_sizes);
    if (!same.ok()) return Contradicted(ask, question, same.error());
    if (!none_larger.ok()) return Contradicted(ask, question, none_larger.error());
    if (!whole) {
      ask.apps = AppContainers(ask.pod);
      ask.pod.stated_qos = QosOf(ask.pod);
      ask.pod.containers = {Container(*stated)};
      ask.pod.is_complete = false;
      ask.source += ", container by container because of its huge pages";
    }
    return std::optional(std::move(ask));
  }
  const std::string* const text = FindAnnotation(*question.sandbox, kKoordinatorAnnotation);
  if (text == nullptr || !options_.extended_resources) return std::optional<PodAsk>();
  return KnowExtended(question, *text);
}

Result<std::optional<PodAsk>> AnnotationSource::Contradicted(const PodAsk& ask,
                                                             const Question& question,
                                                             const Error& contradiction) const {
  if (!MayBeResized(question)) return contradiction;
  if (!question.container) return std::optional<PodAsk>();
  std::optional<PodAsk> known = SizesOfCri(ask.pod, question, options_.claims_add_sizes);
  if (!known) {
    // The text can name fewer containers than the pod has, which would get CPUs beside the others.
    if (!IsUnsized(*question.container)) return contradiction;
    return std::optional(PoolContainer(*question.sandbox, *question.container,
                                       ask.source + ", which does not name the container"));
  }
  // The author may have changed the memory request since, which CRI shows for Guaranteed pods only.
  known->is_annotated =
      known->pod.stated_qos != QosClass::kGuaranteed || known->pod.pod_level.has_value();
  if (ask.source.starts_with(NameOf(kIntelResourcesAnnotation))) {
    // Which of the init containers are sidecars, only sizes that agree show.
    for (Container& container : known->pod.containers) container.kind = ContainerKind::kApp;
  }
  known->source = ask.source + ", cpu and memory from CRI (" + contradiction.message + ")";
  return known;
}

Result<Done> AnnotationSource::RequireNoLargerContainer(const PodAsk& ask,
                                                        const Question& question) const {
  // What claims add is no resize.
  if (!MayBeResized(question) || options_.claims_add_sizes) return Done{};
  return RequireNoMoreAllocated(ask.pod, SizesIn(question.sandbox->linux().resources()),
                                ask.source);
}

// Koordinator's annotation has extended resources only. A BestEffort pod has no others; for other
// pods, CPU and memory of a container are estimated when it is created.
Result<std::optional<PodAsk>> AnnotationSource::KnowExtended(const Question& question,
                                                             const std::string& text) const {
  const std::string author = NameOf(kKoordinatorAnnotation);
  const Result<std::vector<Container>> extended = ParseKoordinatorResources(text);
  if (!extended.ok()) return Faulty(extended.error(), author);
  PodAsk ask{PodWithoutContainers(*question.sandbox), author};
  const bool whole = ask.pod.stated_qos == QosClass::kBestEffort;
  const auto stated =
      question.container
          ? std::ranges::find(*extended, question.container->metadata().name(), &Container::name)
          : extended->end();
  if (question.container ? stated == extended->end() : !whole || extended->empty()) {
    return std::optional<PodAsk>();
  }
  if (whole) {
    ask.pod.containers = *extended;
  } else {
    ask = EstimateContainer(*question.sandbox, *question.container, options_.claims_add_sizes);
    ask.source = author + " and " + ask.source;
    Resources& resources = ask.pod.containers.front().resources;
    resources.requests.insert(stated->resources.requests.begin(), stated->resources.requests.end());
    resources.limits.insert(stated->resources.limits.begin(), stated->resources.limits.end());
  }
  return std::optional(std::move(ask));
}

}  // namespace alignd::podsource
