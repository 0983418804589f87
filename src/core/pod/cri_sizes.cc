#include "alignd/pod/cri_sizes.h"

#include <algorithm>
#include <limits>
#include <string>

namespace alignd {
namespace {

// Shares per CPU; the minimum that the kubelet writes, which also means no request; the kernel's
// maximum; the kernel's minimum quota.
// Source: kubelet pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares and MilliCPUToQuota.
constexpr int64_t kSharesPerCpu = 1024;
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262'144;
constexpr int64_t kMinQuota = 1000;
constexpr int64_t kMillisPerCpu = 1000;

constexpr int64_t kDefaultQuotaPeriod = 100'000;  // in microseconds

// Limits a factor so that the product does not overflow. Real CPU limits are far below.
int64_t Bounded(int64_t factor) {
  return std::min(factor, std::numeric_limits<int64_t>::max() / (2 * kMillisPerCpu));
}

Quantity Millis(int64_t millis) {
  Result<Quantity> quantity = Quantity::Parse(std::to_string(millis) + "m");
  return quantity.ok() ? *quantity : Quantity();
}

}  // namespace

int64_t MillisFromShares(int64_t shares) {
  if (shares <= kMinShares) return 0;
  return (std::min(shares, kMaxShares) * kMillisPerCpu + kSharesPerCpu - 1) / kSharesPerCpu;
}

int64_t SharesFromMillis(int64_t millis) {
  constexpr int64_t kMaxMillis = kMaxShares * kMillisPerCpu / kSharesPerCpu;
  return std::max(kMinShares, std::min(millis, kMaxMillis) * kSharesPerCpu / kMillisPerCpu);
}

// Rounded up, for the kubelet rounds down: quota = millis * period / 1000.
int64_t MillisFromQuota(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  const int64_t divisor = Bounded(period);
  return (Bounded(quota) * kMillisPerCpu + divisor - 1) / divisor;
}

int64_t QuotaFromMillis(int64_t millis, int64_t period) {
  if (millis <= 0 || period <= 0) return 0;
  constexpr int64_t kMaxPeriod = 1'000'000;  // the kernel's, one second
  constexpr int64_t kMaxMillis = std::numeric_limits<int64_t>::max() / kMaxPeriod;
  const int64_t quota = std::min(millis, kMaxMillis) * std::min(period, kMaxPeriod) / kMillisPerCpu;
  return std::max(kMinQuota, quota);
}

int64_t Amount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->Value() : 0;
}

int64_t MilliAmount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->MilliValue() : 0;
}

bool LimitDiffersFromRequest(const CriSizes& sizes) {
  if (sizes.cpu_quota <= 0 || sizes.cpu_period <= 0 || sizes.cpu_shares <= 0) return false;
  const int64_t millis = MillisFromShares(sizes.cpu_shares);
  const int64_t next = SharesFromMillis(millis + 1);
  if (millis > 0 && next <= sizes.cpu_shares) return false;  // the maximum, for all larger requests
  return QuotaFromMillis(std::max<int64_t>(millis, 1), sizes.cpu_period) != sizes.cpu_quota;
}

bool ClaimsMayExplain(const CriSizes& sizes) {
  const int64_t request = MillisFromShares(sizes.cpu_shares);
  return request > 0 && MillisFromQuota(sizes.cpu_quota, sizes.cpu_period) > request;
}

Resources EstimateResources(const CriSizes& sizes, QosClass qos, bool claims_add_sizes) {
  Resources estimate;
  int64_t limit_millis = MillisFromQuota(sizes.cpu_quota, sizes.cpu_period);
  const bool is_claimed =
      claims_add_sizes && LimitDiffersFromRequest(sizes) && ClaimsMayExplain(sizes);
  if (is_claimed && qos == QosClass::kGuaranteed) {
    limit_millis = MillisFromShares(sizes.cpu_shares);
  }
  int64_t request_millis = MillisFromShares(sizes.cpu_shares);
  // In a Guaranteed pod, request and limit are equal, and the quota is more exact than the shares.
  if (qos == QosClass::kGuaranteed && limit_millis > 0) request_millis = limit_millis;
  if (limit_millis > 0) estimate.limits["cpu"] = Millis(limit_millis);
  if (request_millis > 0) estimate.requests["cpu"] = Millis(request_millis);
  if (sizes.memory_limit > 0) {
    const Quantity memory(sizes.memory_limit, Quantity::Format::kBinarySi);
    estimate.limits["memory"] = memory;
    if (qos == QosClass::kGuaranteed) estimate.requests["memory"] = memory;
  }
  for (const auto& [resource, bytes] : sizes.hugepages) {
    estimate.limits[resource] = bytes;
    estimate.requests[resource] = bytes;
  }
  return estimate;
}

CriSizes CriSizesOf(const Resources& resources) {
  const int64_t limit = MilliAmount(resources.limits, "cpu");
  const bool has_request = Find(resources.requests, "cpu") != nullptr;
  CriSizes sizes;
  sizes.cpu_shares = SharesFromMillis(has_request ? MilliAmount(resources.requests, "cpu") : limit);
  sizes.cpu_period = kDefaultQuotaPeriod;
  sizes.cpu_quota = QuotaFromMillis(limit, kDefaultQuotaPeriod);
  sizes.memory_limit = Amount(resources.limits, "memory");
  for (const auto& [resource, bytes] : resources.limits) {
    if (resource.starts_with("hugepages-") && !bytes.IsZero()) sizes.hugepages[resource] = bytes;
  }
  return sizes;
}

}  // namespace alignd
