#include "alignd/pod/cri_agreement.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "alignd/base/saturating_sum.h"

namespace alignd {
namespace {

Error OtherSizes(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message),
          "correct the annotation, or the webhook that writes it"};
}

// Both sides must state the same huge pages. `may_add`: CRI may state more.
Result<Done> RequireHugepages(const Container& stated, const CriSizes& cri,
                              const std::string& where, bool may_add) {
  const ResourceList& created = cri.hugepages;
  ResourceList all = created;
  for (const auto& [resource, limit] : stated.resources.limits) {
    if (resource.starts_with("hugepages-")) all.emplace(resource, limit);
  }
  for (const auto& [resource, limit] : all) {
    const int64_t stated_bytes = Amount(stated.resources.limits, resource);
    const int64_t bytes = Amount(created, resource);
    if (stated_bytes == bytes || (may_add && bytes > stated_bytes)) continue;
    return OtherSizes(where + "limits." + resource + " is " + std::to_string(stated_bytes) +
                      " bytes, but CRI says " + std::to_string(bytes));
  }
  return Done{};
}

// The amount that the pod needs at its peak: all apps and sidecars together, or an init container
// with the sidecars before it. Saturates.
// Source: k8s.io/component-helpers/resource/helpers.go, AggregateContainerRequests.
template <typename AmountOf>
int64_t Peak(const Pod& pod, AmountOf amount_of) {
  int64_t lasting = 0;
  int64_t peak = 0;
  for (const Container& container : pod.containers) {
    const int64_t amount = amount_of(container);
    if (container.kind == ContainerKind::kInit) {
      peak = std::max(peak, SaturatingSum(lasting, amount));
    } else {
      lasting = SaturatingSum(lasting, amount);
    }
  }
  return std::max(peak, lasting);
}

// What the pod states as a whole counts instead of its containers' sum. Their limits of memory may
// sum up to more.
// Source: k8s.io/component-helpers/resource/helpers.go, PodRequests and PodLimits.
const Quantity* OfPod(const Pod& pod, ResourceList Resources::*list, const char* name) {
  return pod.pod_level ? Find((*pod.pod_level).*list, name) : nullptr;
}

int64_t MillisAtPeak(const Pod& pod) {
  const Quantity* const own = OfPod(pod, &Resources::requests, "cpu");
  if (own != nullptr) return own->MilliValue();
  return Peak(pod, [](const Container& c) { return MilliAmount(c.resources.requests, "cpu"); });
}

int64_t MemoryLimitAtPeak(const Pod& pod) {
  const Quantity* const own = OfPod(pod, &Resources::limits, "memory");
  if (own != nullptr) return own->Value();
  return Peak(pod, [](const Container& c) { return Amount(c.resources.limits, "memory"); });
}

Error OtherShares(int64_t millis, const CriSizes& sandbox, const std::string& author) {
  return OtherSizes(author + ": the pod's requests.cpu are " + std::to_string(millis) + "m (" +
                    std::to_string(SharesFromMillis(millis)) +
                    " shares), but its sandbox is created with " +
                    std::to_string(sandbox.cpu_shares) + " shares");
}

Error OtherMemoryLimit(int64_t bytes, const CriSizes& sandbox, const std::string& author) {
  return OtherSizes(author + ": the pod's limits.memory are " + std::to_string(bytes) +
                    " bytes, but its sandbox is created with " +
                    std::to_string(sandbox.memory_limit));
}

}  // namespace

Result<Done> RequireKubeletAllocated(const Pod& pod, const CriSizes& sandbox,
                                     const std::string& author) {
  for (const Container& container : pod.containers) {
    for (const auto& [name, request] : container.resources.requests) {
      const bool huge = name.starts_with("hugepages-");
      if (!huge && name != "memory") continue;
      const auto limit = container.resources.limits.find(name);
      const bool limited = limit != container.resources.limits.end();
      if (huge ? limited && limit->second == request : !limited || request <= limit->second)
        continue;
      return OtherSizes(author + ": " + container.name + ": requests." + name +
                        (huge ? " are not" : " exceed") + " limits." + name);
    }
  }
  const int64_t millis = MillisAtPeak(pod);
  if (sandbox.cpu_shares > 0 && SharesFromMillis(millis) > sandbox.cpu_shares) {
    return OtherShares(millis, sandbox, author);
  }
  const int64_t bytes = MemoryLimitAtPeak(pod);
  if (sandbox.memory_limit > 0 && bytes > sandbox.memory_limit) {
    return OtherMemoryLimit(bytes, sandbox, author);
  }
  return Done{};
}

Result<Done> RequireNoMoreAllocated(const Pod& pod, const CriSizes& sandbox,
                                    const std::string& author) {
  const int64_t millis = MillisAtPeak(pod);
  if (sandbox.cpu_shares > 0 && SharesFromMillis(millis) < sandbox.cpu_shares) {
    return OtherShares(millis, sandbox, author);
  }
  const int64_t bytes = MemoryLimitAtPeak(pod);
  if (sandbox.memory_limit > 0 && bytes < sandbox.memory_limit) {
    return OtherMemoryLimit(bytes, sandbox, author);
  }
  return Done{};
}

CriSizes SandboxSizesOf(const Pod& pod) {
  CriSizes sizes;
  sizes.cpu_shares = SharesFromMillis(MillisAtPeak(pod));
  sizes.memory_limit = MemoryLimitAtPeak(pod);
  return sizes;
}

ResourceList HugepagePeaks(const Pod& pod) {
  ResourceList peaks;
  if (pod.pod_level) {
    for (const auto& [resource, limit] : pod.pod_level->limits) {
      if (resource.starts_with("hugepages-") && !limit.IsZero()) peaks[resource] = limit;
    }
  }
  for (const Container& container : pod.containers) {
    for (const auto& [resource, limit] : container.resources.limits) {
      if (!resource.starts_with("hugepages-") || limit.IsZero() || peaks.contains(resource)) {
        continue;
      }
      peaks[resource] = Quantity(Peak(pod, [&name = resource](const Container& c) {
        return Amount(c.resources.limits, name);
      }));
    }
  }
  return peaks;
}

Result<Done> RequireAgreement(const Container& stated, QosClass qos, const CriSizes& cri,
                              const std::string& author, const AddedByClaims& added) {
  const std::string where = author + ": " + stated.name + ": ";
  const int64_t limit = MilliAmount(stated.resources.limits, "cpu");
  const int64_t quota = QuotaFromMillis(limit, cri.cpu_period);
  // A quota of -1 means that the caller lifted it for exclusive CPUs. In a Guaranteed pod, 0 means
  // that the kubelet sets none (cpuCFSQuota: false); there the shares show the limit, too.
  const bool unlimited = cri.cpu_quota < 0 ||
                         (cri.cpu_quota == 0 && cri.cpu_shares > 0 && qos == QosClass::kGuaranteed);
  const int64_t request = MilliAmount(stated.resources.requests, "cpu");
  const int64_t shares = SharesFromMillis(request);
  const bool is_added = added.to_quota && qos == QosClass::kGuaranteed && quota > 0 &&
                        cri.cpu_quota > quota && cri.cpu_shares == shares;
  if (!unlimited && !is_added && cri.cpu_quota != quota) {
    return OtherSizes(where + "limits.cpu is " + std::to_string(limit) + "m (quota " +
                      std::to_string(quota) + "), but CRI says a quota of " +
                      std::to_string(cri.cpu_quota) + " (" +
                      std::to_string(MillisFromQuota(cri.cpu_quota, cri.cpu_period)) + "m)");
  }
  if (cri.cpu_shares != 0 && cri.cpu_shares != shares) {
    return OtherSizes(where + "requests.cpu is " + std::to_string(request) + "m (" +
                      std::to_string(shares) + " shares), but CRI says " +
                      std::to_string(cri.cpu_shares) + " shares");
  }
  const int64_t bytes = Amount(stated.resources.limits, "memory");
  const bool has_more = added.to_memory && bytes > 0 && cri.memory_limit > bytes;
  if (!has_more && bytes != cri.memory_limit) {
    return OtherSizes(where + "limits.memory is " + std::to_string(bytes) +
                      " bytes, but CRI says " + std::to_string(cri.memory_limit));
  }
  return RequireHugepages(stated, cri, where, added.to_memory);
}

Result<Done> RequireQos(const Pod& pod, const std::string& author) {
  if (!pod.stated_qos) return Done{};
  Pod unstated = pod;
  unstated.stated_qos.reset();
  const QosClass stated = QosOf(unstated);
  if (stated == *pod.stated_qos) return Done{};
  return OtherSizes(author + ": its resources make the pod " + std::string(ToString(stated)) +
                    ", but its cgroup parent says " + std::string(ToString(*pod.stated_qos)));
}

}  // namespace alignd
