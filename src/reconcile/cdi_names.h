// The CDI names of containers, by which they have devices that DRA has allocated.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/pod/pod.h"
#include "reconcile/container_registry.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. Containers that are created through alignd are recorded. For others, the runtime is
// asked: containerd shows the request with which a container was created, CRI-O does not.
class CdiNames {
 public:
  using Names = std::set<std::string>;

  // The references outlive this object; the runtime client is stopped before it is destroyed.
  CdiNames(const ContainerRegistry& registry, RuntimeClient& runtime)
      : registry_(registry), runtime_(runtime) {}

  // The container was created with these names. A container that is started again has the same.
  void Created(const ContainerKey& key, Names names);

  // nullopt: not known.
  std::optional<Names> Of(const ContainerKey& key) const;

  // Call after a listing. Asks the runtime for the names of the containers of these pods that are
  // not known, and forgets pods that are gone.
  void Look(const std::set<std::string>& pods_with_claims);

 private:
  using Asked = std::pair<std::string, ContainerKey>;  // the container's id

  // One after the other, from the last one: the runtime may start a process for each.
  void Ask(std::vector<Asked> containers);

  const ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  mutable Mutex mutex_;
  // nullopt: the runtime does not show them.
  std::map<ContainerKey, std::optional<Names>> names_ GUARDED_BY(mutex_);
  bool is_asking_ GUARDED_BY(mutex_) = false;
};

}  // namespace alignd::reconcile
