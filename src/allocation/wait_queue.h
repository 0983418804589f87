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

#include "alignd/pod/pod.h"
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
  // What all places wait for together: each pod as a whole, or each of its containers.
  size_t parts = 512;
  // How long a place is kept after the last call for its pod. A kubelet calls again after 15 s, or
  // after a back-off of at most 5 min.
  std::chrono::milliseconds kept = std::chrono::minutes(6);
  // How long other pods wait for one that has a part of its resources already, since it has it. Two
  // such pods can wait for each other: then neither must stop all others.
  std::chrono::milliseconds part_reserves = std::chrono::minutes(5);
  // --on-refusal=fail-after: how long a pod may wait in all; nullopt: as long as it takes.
  std::optional<std::chrono::milliseconds> fail_after = {};
};

// A pod that asks for resources.
struct WaitingPod {
  std::string uid;
  std::string name;             // namespace/name
  int32_t priority = 0;         // higher ones are served first; 0: perhaps not known
  std::set<std::string> needs;  // kinds of exclusive resources (ExclusiveNeeds)
  bool has_part = false;        // it is assigned something already
  // The container that asks alone, because no more of the pod is known; empty: the pod as a whole.
  std::string container = {};
  // As it was requested; null: too large to be kept.
  std::shared_ptr<const Pod> requested = {};
};

// A value: no thread, no clock. Its parts are shared, so that a copy costs little. Each pod has at
// most one place. The order is by priority, and within one by the first refusal.
//
// Of a pod that is not known as a whole, each container asks alone, and those that wait share the
// place: it lasts as long as one of them waits. If the pod is known as a whole, or no longer, the
// last request counts.
//
// A place reserves the kinds of resources that its pod needs: no pod behind it is admitted that
// needs one of them. A pod without such kinds never waits. That is sound: whether a pod fits
// depends on the state of the kinds that it needs, and on nothing else. What waits for devices that
// are not available (SetDevices) can not be served, and reserves nothing.
class WaitQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // What the pod as a whole waits for, or one of its containers.
  struct Part {
    std::set<std::string> needs;
    Refusal why;  // the last refusal
    // Whether it is known that the empty node would admit it.
    bool is_confirmed = false;
    std::shared_ptr<const Pod> requested = {};  // as in WaitingPod
  };
  struct Place {
    WaitingPod pod;             // needs: those of all parts; without `container` and `requested`
    uint64_t number = 0;        // grows with every new place
    Time since{};               // of the first refusal
    Refusal why;                // the last refusal
    bool is_confirmed = false;  // one of its parts is
    std::map<std::string, Part> parts = {};  // by container; "": the pod as a whole
    std::optional<Time> has_part_since = {};

    // The last refusal of the container; of the pod, if it does not wait alone.
    const Refusal& WhyOf(const std::string& container) const;
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
  SharedPlace Share(const std::string& uid) const;
  // What that container waits for, or the pod as a whole; null: it does not wait.
  const Part* FindPart(const std::string& uid, const std::string& container) const;
  // From 1; 0: it has no place.
  size_t PositionOf(const std::string& uid) const;
  uint64_t Ended(WaitEnd end) const { return ended_[static_cast<size_t>(end)]; }

  // The pod was refused: it gets a place, or keeps its own, with these needs. A priority that is
  // known stays known. False: it has none, and there are as many as may be.
  bool Join(const WaitingPod& pod, const Refusal& why, Time now);
  // The empty node would admit it, and `why` is explained.
  void Confirm(const std::string& uid, const std::string& container, const Refusal& why);
  // A call for it came, or is being held.
  void Called(const std::string& uid, const std::string& container, Time now);
  // That container waits no longer; empty: nothing of the pod does. With the last part the pod
  // loses its place. `has_part`, of one that was admitted: the pod is assigned something now. What
  // still waits is then tried once more. Not counted: a place that was not confirmed, except as
  // admitted. Answers whether it waited.
  bool Leave(const std::string& uid, const std::string& container, WaitEnd end, bool has_part,
             Time now);
  bool Leave(const std::string& uid, WaitEnd end) { return Leave(uid, "", end, false, {}); }
  // Forgets also that its time was over.
  void Forget(const std::string& uid);

  // The device resources that have healthy devices, and whose plugin is not awaited. Before the
  // first call, all are available.
  void SetDevices(std::set<std::string> available) { available_ = std::move(available); }

  // The places before the pod that reserve a kind which it needs, at most `limit`, in order. Empty:
  // the pod need not wait. A pod that has a part of its resources never waits for others.
  std::vector<SharedPlace> PlacesBefore(const WaitingPod& pod, Time now, size_t limit) const;
  // The first one; null: none.
  const Place* FirstBefore(const WaitingPod& pod, Time now) const;

  // The pods whose time was over (fail_after), since when they waited. They get no place any more.
  const SharedPlace* FindFailed(const std::string& uid) const;
  const SharedPlace* FindFailedNamed(const std::string& name) const;  // of several, any
  // It was admitted all the same: its admission had begun before.
  void ForgetFailed(const std::string& uid) { failed_.erase(uid); }

  // Drops places whose time is over. `is_called`: whether a call for that container is being held,
  // or for any of the pod (empty); what is called does not expire.
  using IsCalled = std::function<bool(const std::string& uid, const std::string& container)>;
  struct Expired {
    std::vector<SharedPlace> failed;  // by fail_after
    std::vector<SharedPlace> dropped;
  };
  Expired Expire(Time now, const IsCalled& is_called);
  // When Expire, or a change of what is reserved, is due at the latest; nullopt: never.
  std::optional<Time> NextExpiry(Time now) const;

  // Resources were released, or the inventory has changed: each pod may be tried once more.
  void Released() { ++generation_; }
  void InventoryChanged() {
    ++generation_;
    ++inventory_;
  }
  uint64_t generation() const { return generation_; }
  // It was decided about with what was free in that generation; nullopt: it was not decided about.
  void Tried(const std::string& uid, const std::string& container,
             std::optional<uint64_t> generation);
  // Whether the inventory is the one with which it was confirmed.
  bool IsExplained(const std::string& uid, const std::string& container) const;
  // The first pod that can be tried: not since the last release, no place before it reserves what
  // it needs, and `is_called`. It counts as tried. nullopt: there is none.
  std::optional<std::string> NextToTry(
      Time now, const std::function<bool(const std::string& uid)>& is_called);

  // The configuration has changed. `renew` answers what it needs now; nullopt: it is assigned that
  // already, and does not wait any more.
  void Renew(Time now,
             const std::function<std::optional<WaitingPod>(const Place& place,
                                                           const std::string& container)>& renew);

  // A part that was confirmed with an earlier inventory: would the empty node still admit it?
  struct Check {
    std::string uid;
    std::string container;
    uint64_t number = 0;     // of the place
    uint64_t inventory = 0;  // that of the answer
    std::shared_ptr<const Pod> requested;
  };
  // The one that was checked longest ago. Those whose devices are not available come when these
  // are. nullopt: none.
  std::optional<Check> NextToCheck() const;
  // It is answered. False: what it asked about does not wait any more, or asks for something else.
  bool Checked(const Check& check);

 private:
  struct PartTimes {
    Time last{};  // of a call
    std::optional<uint64_t> tried{};
    uint64_t explained = 0;  // inventory_ when it was confirmed
    uint64_t checked = 0;    // inventory_ with which the empty node would admit it
  };
  struct Entry {
    SharedPlace place;
    std::map<std::string, PartTimes> times;  // for each of its parts
  };
  using Entries = std::vector<Entry>;

  Entries::iterator FindEntry(const std::string& uid);
  Entries::const_iterator FindEntry(const std::string& uid) const;
  PartTimes* FindTimes(const std::string& uid, const std::string& container);
  bool IsAvailable(const std::set<std::string>& needs) const;
  bool Reserves(const Place& place, const Part& part, Time now) const;
  size_t PartCount() const;
  void Insert(Entry entry);
  // Replaces what the entry has, and moves it to where its priority belongs.
  void Replace(Entries::iterator entry, Place place);
  void Erase(Entries::iterator entry, WaitEnd end);
  void AddFailed(SharedPlace place, Time now);

  WaitLimits limits_;
  Entries entries_;  // in order
  struct Failed {
    SharedPlace place;
    Time last{};
  };
  std::map<std::string, Failed> failed_;  // by UID
  std::optional<std::set<std::string>> available_;
  uint64_t joined_ = 0;
  uint64_t generation_ = 0;
  uint64_t inventory_ = 0;
  std::array<uint64_t, kWaitEnds> ended_{};
};

// Why a pod would not be admitted because of the queue, although it fits (AskQueue). It is exact at
// the time of the answer: a published queue lacks pods whose refusal is being explained. A pod that
// is admitted leaves the queue after its assignment is published: ask before reading the state.
struct QueueAnswer {
  Refusal why;
  // The first pods that are served before it. Empty: its time is over (WaitLimits), and no end of
  // other pods helps.
  std::vector<WaitQueue::SharedPlace> before;
};

}  // namespace alignd::allocation
