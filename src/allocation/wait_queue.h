// The pods that wait for resources that other pods are assigned, in the order in which they are
// served.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/pod/refusal.h"

namespace alignd::allocation {

// Why a place was lost.
enum class WaitEnd {
  kAdmitted,
  kExpired,      // no call came for WaitLimits::kept
  kTimeout,      // WaitLimits::fail_after is over
  kPodGone,      // its sandbox was removed, or it was released
  kCannotFit,    // also the empty node would refuse it
  kOtherReason,  // refused or failed for another reason than a lack of free resources
};
inline constexpr size_t kWaitEnds = 6;

// "admitted", "expired", "timeout", "pod-gone", "cannot-fit", "other-reason".
std::string_view ToString(WaitEnd end);

struct WaitLimits {
  // More than the pods of a node.
  size_t places = 256;
  // How long a place is kept after the last call for its pod. A kubelet calls again after 15 s, or
  // after a back-off of at most 5 min.
  std::chrono::milliseconds kept = std::chrono::minutes(6);
  // How long other pods wait for one that has a part of its resources already. Two such pods can
  // wait for each other: then neither must stop all others.
  std::chrono::milliseconds part_reserves = std::chrono::minutes(5);
  // --on-refusal=fail-after: how long a pod may wait in all; nullopt: as long as it takes.
  std::optional<std::chrono::milliseconds> fail_after = {};
};

// A pod that asks for resources.
struct WaitingPod {
  std::string uid;
  std::string name;             // namespace/name
  int32_t priority = 0;         // higher ones are served first
  std::set<std::string> needs;  // kinds of exclusive resources (ExclusiveNeeds)
  bool has_part = false;        // it is assigned something already

  friend bool operator==(const WaitingPod&, const WaitingPod&) = default;
};

// A value: no thread, no clock. Its parts are shared, so that a copy costs little. Each pod has at
// most one place. The order is by priority, and within one by the first refusal.
//
// A place reserves the kinds of resources that its pod needs: no pod behind it is admitted that
// needs one of them. A pod without such kinds never waits. That is sound: whether a pod fits
// depends on the state of the kinds that it needs, and on nothing else.
class WaitQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Place {
    WaitingPod pod;
    uint64_t number = 0;  // grows with every new place
    Time since{};         // of the first refusal
    Refusal why;          // the last refusal
    // Whether it is known that the empty node would admit the pod.
    bool is_confirmed = false;
  };
  using SharedPlace = std::shared_ptr<const Place>;

  explicit WaitQueue(const WaitLimits& limits) : limits_(limits) {}

  const WaitLimits& limits() const { return limits_; }
  // Those of the next daemon of this process.
  void SetLimits(const WaitLimits& limits) { limits_ = limits; }

  bool IsEmpty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // In order.
  std::vector<SharedPlace> Places() const;
  // Null: it has none.
  const Place* Find(const std::string& uid) const;
  // From 1; 0: it has no place.
  size_t PositionOf(const std::string& uid) const;
  uint64_t Ended(WaitEnd end) const { return ended_[static_cast<size_t>(end)]; }

  // The pod was refused: it gets a place, or keeps its own, with these needs and this priority.
  // False: it has none, and there are as many as may be.
  bool Join(const WaitingPod& pod, const Refusal& why, Time now);
  // The empty node would admit it, and `why` is explained.
  void Confirm(const std::string& uid, const Refusal& why);
  // A call for the pod came, or is being held.
  void Called(const std::string& uid, Time now);
  // The pod loses its place. Not counted: one that was not confirmed, except as admitted. Answers
  // whether it had one.
  bool Leave(const std::string& uid, WaitEnd end);
  // Forgets also that its time was over.
  void Forget(const std::string& uid);

  // The first place before the pod that reserves a kind which it needs. Null: the pod need not
  // wait. A pod that has a part of its resources never waits for others.
  const Place* FirstBefore(const WaitingPod& pod, Time now) const;

  // The pods whose time was over (fail_after), since when they waited. They get no place any more.
  const SharedPlace* FindFailed(const std::string& uid) const;

  // Drops places whose time is over. `is_called`: whether a call for the pod is being held; such a
  // place does not expire.
  struct Expired {
    std::vector<SharedPlace> failed;  // by fail_after
    std::vector<SharedPlace> dropped;
  };
  Expired Expire(Time now, const std::function<bool(const std::string& uid)>& is_called);
  // When Expire, or a change of what is reserved, is due at the latest; nullopt: never.
  std::optional<Time> NextExpiry(Time now) const;

  // Resources were released, or the inventory has changed: each pod may be tried once more.
  void Released() { ++generation_; }
  void InventoryChanged() {
    ++generation_;
    ++inventory_;
  }
  uint64_t generation() const { return generation_; }
  // The pod was decided about with what was free in that generation.
  void Tried(const std::string& uid, uint64_t generation);
  // Whether the inventory is the one with which the place was confirmed.
  bool IsExplained(const std::string& uid) const;
  // The first pod that can be tried: not since the last release, no place before it reserves what
  // it needs, and `is_called`. It counts as tried. nullopt: there is none.
  std::optional<std::string> NextToTry(
      Time now, const std::function<bool(const std::string& uid)>& is_called);

 private:
  struct Entry {
    SharedPlace place;
    Time last{};  // of a call
    std::optional<uint64_t> tried{};
    uint64_t explained = 0;  // inventory_ when it was confirmed
  };
  using Entries = std::vector<Entry>;

  Entries::iterator FindEntry(const std::string& uid);
  Entries::const_iterator FindEntry(const std::string& uid) const;
  bool Reserves(const Place& place, Time now) const;
  void Insert(Entry entry);
  void Erase(Entries::iterator entry, WaitEnd end);
  void AddFailed(SharedPlace place, Time now);

  WaitLimits limits_;
  Entries entries_;  // in order
  struct Failed {
    SharedPlace place;
    Time last{};
  };
  std::map<std::string, Failed> failed_;  // by UID
  uint64_t joined_ = 0;
  uint64_t generation_ = 0;
  uint64_t inventory_ = 0;
  std::array<uint64_t, kWaitEnds> ended_{};
};

}  // namespace alignd::allocation
