#include "core/placement/resource_validation.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "alignd/pod/pod_requests.h"
#include "alignd/pod/resource_name.h"
#include "core/placement/names.h"
#include "core/pod/resource_list.h"

namespace alignd::placement {
namespace {

using json::View;

std::string KeyPath(const std::string& list, const std::string& name) {
  return list + "[" + name + "]";
}

bool IsHugePages(std::string_view name) { return name.starts_with("hugepages-"); }

// Whether the API server accepts requests below the limit.
// Source: pkg/apis/core/helper/helpers.go, IsOvercommitAllowed.
bool MayOvercommit(std::string_view name) {
  return !IsHugePages(name) &&
         (!IsExtendedResource(name) || name.find("kubernetes.io/") != std::string_view::npos);
}

void CheckResourceName(const std::string& path, const std::string& name, Faults& faults) {
  if (!IsQualifiedName(name)) {
    return faults.Invalid(path, name,
                          "must be a qualified name: letters, digits, '-', '_' and '.', with a DNS "
                          "prefix and '/' before it, such as example.com/gpu");
  }
  const bool has_prefix = name.find('/') != std::string::npos;
  if (!has_prefix && IsExtendedResource(name)) {
    return faults.Invalid(path, name, "must be a standard resource for containers");
  }
  // Quotas have names with this prefix.
  const bool is_native = name.find("kubernetes.io/") != std::string::npos;
  if (has_prefix && !is_native && name.starts_with("requests.")) {
    faults.Invalid(path, name, "doesn't follow extended resource name standard");
  }
}

void CheckHugePages(const std::string& path, const std::string& name, const Quantity& amount,
                    Faults& faults) {
  const std::string size_text = name.substr(std::string_view("hugepages-").size());
  const Result<Quantity> size = Quantity::Parse(size_text);
  if (!size.ok() || size->Sign() <= 0 || *size != Quantity(size->Value())) {
    return faults.Invalid(path, name, "must name a page size, such as hugepages-2Mi");
  }
  if (amount != Quantity(amount.Value()) || amount.Value() % size->Value() != 0) {
    faults.Invalid(path, amount.ToString(),
                   "is not positive integer multiple of " + size->ToString());
  }
}

// Reads one list and notes its faults.
ResourceList AmountsIn(const View& resources, std::string_view key, Faults& faults) {
  const std::optional<View> list = ObjectIn(resources, key, faults);
  return list ? CheckAmounts(*list, faults) : ResourceList();
}

void CheckRequestsAgainstLimits(const std::string& path, const Resources& resources,
                                Faults& faults) {
  for (const auto& [name, request] : resources.requests) {
    const Quantity* const limit = Find(resources.limits, name);
    if (limit == nullptr) {
      if (!MayOvercommit(name)) {
        faults.Required(KeyPath(path + ".limits", name),
                        "Limit must be set for non overcommitable resources");
      }
      continue;
    }
    if (request > *limit) {
      faults.Invalid(KeyPath(path + ".requests", name), request.ToString(),
                     "must be less than or equal to " + name + " limit of " + limit->ToString());
    } else if (!MayOvercommit(name) && request != *limit) {
      faults.Invalid(KeyPath(path + ".requests", name), request.ToString(),
                     "must be equal to " + name + " limit of " + limit->ToString());
    }
  }
}

bool HasHugePages(const Resources& resources) {
  const auto is_huge = [](const auto& entry) { return IsHugePages(entry.first); };
  return std::ranges::any_of(resources.requests, is_huge) ||
         std::ranges::any_of(resources.limits, is_huge);
}

bool HasCpuOrMemory(const Resources& resources) {
  for (const char* name : {"cpu", "memory"}) {
    if (Find(resources.requests, name) != nullptr || Find(resources.limits, name) != nullptr) {
      return true;
    }
  }
  return false;
}

// Requests, limits, and how they relate; with the limits that are also requests.
Resources CheckLists(const View& resources, Faults& faults) {
  CheckAllFields(resources, ResourcesFields(), faults);
  Resources read;
  read.limits = AmountsIn(resources, "limits", faults);
  read.requests = AmountsIn(resources, "requests", faults);
  CheckRequestsAgainstLimits(resources.path(), read, faults);
  if (HasHugePages(read) && !HasCpuOrMemory(read)) {
    faults.Forbidden(resources.path(), "HugePages require cpu or memory");
  }
  read.requests.insert(read.limits.begin(), read.limits.end());
  return read;
}

void CheckPodLevelNames(const std::string& path, const ResourceList& list, Faults& faults) {
  for (const auto& [name, amount] : list) {
    if (name == "cpu" || name == "memory" || IsHugePages(name)) continue;
    faults.Unsupported(KeyPath(path, name), name, "\"cpu\", \"hugepages-\", \"memory\"");
  }
}

}  // namespace

ResourceList CheckAmounts(const View& list, Faults& faults) {
  ResourceList amounts;
  const auto members = list.Members();
  if (!members.ok()) {
    faults.Add(members.error());
    return amounts;
  }
  for (const auto& [name, member] : *members) {
    const std::string path = KeyPath(list.path(), name);
    CheckResourceName(path, name, faults);
    const Result<Quantity> amount = ReadQuantity(View(member.value(), path));
    if (!amount.ok()) {
      faults.Add(amount.error());
      continue;
    }
    if (IsHugePages(name)) {
      CheckHugePages(path, name, *amount, faults);
    } else if (!MayOvercommit(name) && *amount != Quantity(amount->Value())) {
      faults.Invalid(path, amount->ToString(), "must be an integer");
    }
    amounts.emplace(name, *amount);
  }
  return amounts;
}

Resources CheckContainerResources(const View& resources, const std::set<std::string>& claims,
                                  Faults& faults) {
  Resources read = CheckLists(resources, faults);
  std::set<std::string> seen;
  for (const View& claim : ListIn(resources, "claims", faults)) {
    CheckAllFields(claim, ContainerClaimFields(), faults);
    const std::optional<std::string> name = StringIn(claim, "name", faults);
    const std::optional<std::string> request = StringIn(claim, "request", faults);
    if (!name || name->empty()) {
      faults.Required(claim.path() + ".name");
      continue;
    }
    if (!seen.insert(*name + "/" + request.value_or("")).second) {
      faults.Duplicate(claim.path(), *name);
    }
    if (!claims.contains(*name)) faults.NotFound(claim.path(), *name);
  }
  return read;
}

void CheckPodResources(const View& resources, const std::vector<Container>& containers,
                       Faults& faults) {
  const Resources pod = CheckLists(resources, faults);
  CheckPodLevelNames(resources.path() + ".limits", pod.limits, faults);
  CheckPodLevelNames(resources.path() + ".requests", pod.requests, faults);
  if (!ListIn(resources, "claims", faults).empty()) {
    faults.Forbidden(resources.path() + ".claims",
                     "claims cannot be set for Resources at pod-level");
  }
  for (const auto& [name, amount] : RequestsOfContainers(containers)) {
    const Quantity* const whole = Find(pod.requests, name);
    if (whole == nullptr || amount <= *whole) continue;
    faults.Invalid(
        KeyPath(resources.path() + ".requests", name), whole->ToString(),
        "must be greater than or equal to aggregate container requests of " + amount.ToString());
  }
  for (const Container& container : containers) {
    for (const auto& [name, limit] : container.resources.limits) {
      const Quantity* const whole = Find(pod.limits, name);
      if (whole == nullptr || limit <= *whole) continue;
      faults.Invalid(KeyPath(resources.path() + ".limits", name), whole->ToString(),
                     "must be greater than or equal to the limit of container \"" + container.name +
                         "\", " + limit.ToString());
    }
  }
}

}  // namespace alignd::placement
