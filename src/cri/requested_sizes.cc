#include "cri/requested_sizes.h"

#include <charconv>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "alignd/pod/cri_sizes.h"
#include "cri/injection.h"

namespace alignd::cri {
namespace {

using runtime::v1::LinuxContainerResources;

constexpr int64_t kDefaultPeriod = 100'000;  // microseconds; what a period of 0 means

}  // namespace

std::optional<int64_t> RequestedMillis(LinuxContainerResources resources) {
  if (const auto file = resources.unified().find("cpu.max"); file != resources.unified().end()) {
    std::istringstream text(file->second);  // "QUOTA PERIOD", "QUOTA" or "max"
    int64_t quota = 0;
    int64_t period = kDefaultPeriod;
    if (text >> quota) {
      text >> period;
      resources.set_cpu_quota(quota);
      resources.set_cpu_period(period);
    } else {
      resources.set_cpu_quota(kNoQuota);
    }
  }
  const int64_t shares = resources.cpu_shares();
  if (resources.cpu_quota() > 0) {
    if (resources.cpu_period() <= 0) resources.set_cpu_period(kDefaultPeriod);
    const int64_t millis = MillisFromQuota(resources.cpu_quota(), resources.cpu_period());
    const bool agree = shares <= 0 || SharesFromMillis(millis) == shares;
    return agree ? millis : MillisFromShares(shares);
  }
  if (!SaysAllSizes(resources)) return std::nullopt;
  return MillisFromShares(shares);
}

std::optional<int64_t> RequestedMillisOf(const reconcile::ContainerSpec& spec) {
  LinuxContainerResources now;
  now.set_cpu_quota(spec.cpu_quota);
  now.set_cpu_period(spec.cpu_period);
  now.set_cpu_shares(spec.cpu_shares);
  if (spec.cpu_quota > 0) return RequestedMillis(std::move(now));
  if (spec.cpu_shares > 0) return MillisFromShares(spec.cpu_shares);
  return std::nullopt;
}

bool HasLimits(const reconcile::ContainerSpec& spec) {
  constexpr int64_t kSharesWithoutRequest = 2;  // otherwise the runtime has not said anything
  return spec.cpu_quota > 0 || spec.memory_limit > 0 || spec.cpu_shares <= 0 ||
         spec.cpu_shares > kSharesWithoutRequest;
}

bool KeepsCount(const LinuxContainerResources& resources, int count) {
  const std::optional<int64_t> requested = RequestedMillis(resources);
  if (!requested || *requested == count * kMillisPerWholeCpu) return true;
  return resources.cpu_quota() <= 0 &&
         resources.cpu_shares() == SharesFromMillis(count * kMillisPerWholeCpu);
}

bool SaysOnlyAtLeast(const LinuxContainerResources& resources) {
  const int64_t most = SharesFromMillis(std::numeric_limits<int64_t>::max());
  return resources.cpu_quota() <= 0 && !resources.unified().contains("cpu.max") &&
         resources.cpu_shares() >= most;
}

bool SaysAllSizes(const LinuxContainerResources& resources) {
  return resources.cpu_shares() > 0 && resources.memory_limit_in_bytes() > 0;
}

std::optional<int64_t> RequestedMemory(const LinuxContainerResources& resources) {
  if (const auto file = resources.unified().find("memory.max"); file != resources.unified().end()) {
    const std::string& text = file->second;  // bytes, or "max"
    int64_t bytes = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), bytes);
    return read.ec == std::errc() ? bytes : int64_t{-1};
  }
  if (resources.memory_limit_in_bytes() == 0) return std::nullopt;
  return resources.memory_limit_in_bytes();
}

}  // namespace alignd::cri
