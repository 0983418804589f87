// The allocation manager and the containers that run without an entry in the state files.
#include <spdlog/spdlog.h>

#include <future>
#include <map>
#include <memory>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "allocation/allocation_manager.h"

namespace alignd::allocation {

std::optional<admission::Adoption> AllocationManager::Adopt(
    std::vector<admission::MarkedContainer> containers, std::set<std::string> absent) {
  std::promise<std::optional<admission::Adoption>> adopted;
  const bool posted = queue_->Post([&] {
    if (stopping_) return adopted.set_value(std::nullopt);
    admission::Adoption adoption =
        admission::Adopt(node_, ledger_.state(), absent, std::move(containers));
    ledger_.Keep(adoption.next);
    for (const admission::AdoptionNote& note : adoption.refuted) {
      kubelet_.DropUnassigned(adoption.next, note.key.pod_uid);
    }
    // A file that was not used is replaced also if its entries are the ones of the state.
    ledger_.SaveAgain([](const Result<Done>& saved) {
      if (saved.ok()) return;
      spdlog::error("assignments of running containers: {}", saved.error().Text());
    });
    adopted.set_value(std::move(adoption));
  });
  if (!posted) return std::nullopt;
  return adopted.get_future().get();
}

void AllocationManager::LearnPods(std::map<std::string, PodPolicies> policies,
                                  const std::map<std::string, bool>& has_pod_level,
                                  const std::map<ContainerKey, ContainerKind>& roles) {
  notes_.LearnPodLevel(has_pod_level);
  notes_.LearnRoles(roles);
  queue_->Post([this, policies = std::move(policies)] {
    admission::NodeState next = admission::WithPolicies(node_, ledger_.state(), policies);
    missed_policies_ = policies;
    std::erase_if(missed_policies_, [&](const auto& asked) {
      return admission::HasPolicies(node_, next, asked.first, asked.second);
    });
    ledger_.Keep(std::move(next));
  });
}

}  // namespace alignd::allocation
