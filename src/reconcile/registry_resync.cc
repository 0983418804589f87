// What a listing of the runtime changes in the registry.
#include <algorithm>
#include <utility>

#include "reconcile/container_registry.h"

namespace alignd::reconcile {

void ContainerRegistry::BeginListing() {
  const MutexLock lock(mutex_);
  added_since_.clear();
  removed_since_.clear();
}

std::set<std::string> ContainerRegistry::Resync(const RuntimeListing& listing,
                                                const std::set<std::string>& allocated,
                                                bool at_start) {
  const MutexLock lock(mutex_);
  TakeSandboxes(listing);
  TakeContainers(listing, at_start);
  std::set<std::string> missing;
  for (const std::string& uid : allocated) {
    if (!HasSandbox(uid) && !calls_.contains(uid)) missing.insert(uid);
  }
  std::set<std::string> gone = missing;
  if (!at_start) {
    std::erase_if(
        gone, [this](const std::string& uid) REQUIRES(mutex_) { return !missing_.contains(uid); });
  }
  missing_ = std::move(missing);
  return gone;
}

void ContainerRegistry::TakeSandboxes(const RuntimeListing& listing) {
  std::set<std::string> in_use;
  for (const RuntimeListing::Container& listed : listing.containers) {
    if (listed.runs && !removed_since_.contains(listed.id)) in_use.insert(listed.sandbox_id);
  }
  std::map<std::string, Sandbox> sandboxes;
  for (const RuntimeListing::Sandbox& listed : listing.sandboxes) {
    if (removed_since_.contains(listed.id)) continue;
    Sandbox& sandbox = sandboxes[listed.id];
    sandbox.pod_uid = PodUidOr(listed.pod_uid, listed.id);
    if (!listed.name.empty()) sandbox.name = listed.name_space + "/" + listed.name;
    sandbox.handler = listed.handler;
    sandbox.policies = listed.policies;
    sandbox.decided = listed.decided;
    // A stopped sandbox never runs again. If it is listed as ready, it was stopped after the
    // listing, or it was not complete yet when an earlier listing showed it as not ready.
    const auto known = sandboxes_.find(listed.id);
    if (known != sandboxes_.end()) {
      sandbox.stopping = known->second.stopping;
      // A runtime that does not list handlers does not unsay what the caller has said.
      if (sandbox.handler.empty()) sandbox.handler = known->second.handler;
    }
    if (known != sandboxes_.end() && known->second.stopped &&
        !(known->second.found && listed.ready)) {
      sandbox.stopped = known->second.stopped;
      sandbox.found = known->second.found;
    } else if (!listed.ready && !in_use.contains(listed.id)) {
      sandbox.stopped = Clock::now();
      sandbox.found = true;
    }
  }
  for (const std::string& id : added_since_) {
    if (const auto known = sandboxes_.find(id); known != sandboxes_.end()) sandboxes.insert(*known);
  }
  sandboxes_ = std::move(sandboxes);
}

void ContainerRegistry::TakeContainers(const RuntimeListing& listing, bool at_start) {
  std::map<std::string, Container> containers;
  for (const RuntimeListing::Container& listed : listing.containers) {
    if (removed_since_.contains(listed.id) || HasStopped(listed.key.pod_uid)) continue;
    Container& container = containers[listed.id];
    const auto known = containers_.find(listed.id);
    if (known != containers_.end()) {
      container = known->second;
    } else {
      container.unmanaged =
          !at_start && !calls_.contains(listed.key.pod_uid) && !forgotten_.contains(listed.id);
      container.footprint = listed.place;
      container.is_listed = !listed.place.empty();
      container.last = listed.place.empty() ? listed.assumed : listed.place;
    }
    container.key = listed.key;
    container.runs = listed.runs;
  }
  for (const std::string& id : added_since_) {
    if (const auto known = containers_.find(id); known != containers_.end()) {
      containers.insert(*known);
    }
  }
  containers_ = std::move(containers);
  std::erase_if(forgotten_, [&](const std::string& id) REQUIRES(mutex_) {
    return !added_since_.contains(id) &&
           std::ranges::find(listing.containers, id, &RuntimeListing::Container::id) ==
               listing.containers.end();
  });
}

}  // namespace alignd::reconcile
