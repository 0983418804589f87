// The CDI names of containers, by which they have devices that DRA has allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. Containers that are created through alignd are recorded. For others, the runtime is
// asked: containerd shows the request with which a container was created, CRI-O does not.
class CdiNames {
 public:
  using Names = std::set<std::string>;
  // nullopt: the runtime does not show them.
  using Known = std::map<ContainerKey, std::optional<Names>>;
  // As RuntimeClient::FindInfo.
  using FindInfo =
      std::function<void(const std::string& id, std::function<void(Result<std::string>)> done)>;

  // The registry outlives this object; each `done` has run before it is destroyed.
  CdiNames(const ContainerRegistry& registry, FindInfo find_info, Known known = {})
      : registry_(registry), find_info_(std::move(find_info)), names_(std::move(known)) {}

  // The container was created with these names. A container that is started again has the same.
  void Created(const ContainerKey& key, Names names);

  // nullopt: not known.
  std::optional<Names> Of(const ContainerKey& key) const;
  // Those of all containers, for the object that takes over.
  Known known() const;

  // Call after a listing. Asks the runtime for the names of the containers of these pods that are
  // not known, and forgets pods that are gone.
  void Look(const std::set<std::string>& pods_with_claims);

 private:
  struct Asked {
    std::string id;
    ContainerKey key;
    uint64_t failure = 0;  // as failures_
  };

  // One after the other, from the last one: the runtime may start a process for each.
  void Ask(std::vector<Asked> containers);
  // Returns whether the others may be asked now.
  bool Take(const ContainerKey& key, const Result<std::string>& info);

  const ContainerRegistry& registry_;
  const FindInfo find_info_;
  mutable Mutex mutex_;
  Known names_ GUARDED_BY(mutex_);
  bool is_asking_ GUARDED_BY(mutex_) = false;
  // The number of the last failure of each container that could not be asked.
  std::map<ContainerKey, uint64_t> failures_ GUARDED_BY(mutex_);
  uint64_t last_failure_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::reconcile
