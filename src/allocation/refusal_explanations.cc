#include "allocation/refusal_explanations.h"

#include <set>
#include <utility>

#include "alignd/admission/explanation.h"
#include "allocation/holders.h"

namespace alignd::allocation {

ExplainedRefusal ExplainRefusal(const admission::Node& node, const KubeletAllocation& kubelet,
                                const RefusedRequest& refused) {
  const AdmissionRequest& request = *refused.request;
  const Pod& pod = request.pod;
  ExplainedRefusal explained{
      .refusal = refused.refusal, .available = {}, .fits_without_others = {}};
  Refusal& refusal = explained.refusal;
  if (refused.by_policy) {
    refusal = admission::Explain(node, refused.state, pod, refused.refusal);
    refusal.message +=
        kubelet.Explain(node, refused.state, pod, request.kubelet_allocated, *refused.bindings);
  }
  explained.fits_without_others = admission::FitsWithoutOthers(node, refused.state, pod);
  // Otherwise no end of other pods helps.
  if (explained.fits_without_others) {
    std::set<std::string> lacking;
    if (refused.by_policy) lacking = admission::LackingResources(node, refused.state, pod);
    refusal.message +=
        DescribeHolders(node, refused.state, request, refused.by_policy ? &lacking : nullptr);
  }
  explained.available =
      admission::DescribeAvailable(admission::AvailableFor(node, refused.state, pod));
  return explained;
}

Refusal WithoutExplanation(const RefusedRequest& refused) {
  const Pod& pod = refused.request->pod;
  Refusal refusal = refused.refusal;
  refusal.message +=
      ". Not explained: too many other refusals wait for their explanation, or no thread can be "
      "started";
  if (refused.by_policy) {
    refusal.message += std::string(admission::kWhatWouldHelp) + "run \"alignctl why-not " +
                       pod.name_space + "/" + pod.name + "\"";
  }
  return refusal;
}

bool RefusalExplanations::IsFull(Clock::time_point now) const {
  const Clock::time_point came = came_;
  if (queue_.size() >= kMaxWaiting) return true;
  return came != Clock::time_point::max() && now - came > kMaxWait;
}

bool RefusalExplanations::CheckFits(const admission::NodeState& state,
                                    std::shared_ptr<const Pod> pod, Clock::time_point now,
                                    std::function<void(bool)> done) {
  if (IsFull(now)) return false;
  return queue_.Post([this, state, pod = std::move(pod), done = std::move(done)] {
    done(admission::FitsWithoutOthers(node_, state, *pod));
  });
}

bool RefusalExplanations::Explain(std::shared_ptr<const RefusedRequest> refused,
                                  std::shared_ptr<const std::atomic<bool>> abandoned,
                                  Clock::time_point now, Done done) {
  if (IsFull(now)) return false;
  return queue_.Post([this, refused = std::move(refused), abandoned = std::move(abandoned), now,
                      done = std::move(done)] {
    if (*abandoned) return done(std::nullopt);
    came_ = now;
    const ExplainedRefusal explained = ExplainRefusal(node_, kubelet_, *refused);
    came_ = Clock::time_point::max();
    done(explained);
  });
}

}  // namespace alignd::allocation
