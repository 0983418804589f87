#include "allocation/state_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace alignd::allocation {
namespace {

using admission::NodeState;
using checkpoint::Bindings;

template <typename Map>
bool HaveSameEntry(const Map& a, const Map& b, const std::string& key) {
  const auto in_a = a.find(key);
  const auto in_b = b.find(key);
  if (in_a == a.end() || in_b == b.end()) return in_a == a.end() && in_b == b.end();
  return in_a->second == in_b->second;
}

// Of maps with a ContainerKey: the entries of the pod.
template <typename Map>
bool HaveSameOfPod(const Map& a, const Map& b, const std::string& pod_uid) {
  const ContainerKey first{pod_uid, ""};
  auto in_a = a.lower_bound(first);
  auto in_b = b.lower_bound(first);
  const auto is_over = [&](const Map& map, const auto& entry) {
    return entry == map.end() || entry->first.pod_uid != pod_uid;
  };
  for (; !is_over(a, in_a) && !is_over(b, in_b); ++in_a, ++in_b) {
    if (in_a->first != in_b->first || !(in_a->second == in_b->second)) return false;
  }
  return is_over(a, in_a) && is_over(b, in_b);
}

// Whether all assignments are saved. Bindings of released pods that are still in their file lose
// nothing.
Result<Done> WithoutLeftover(const Result<StateWriter::Leftover>& saved) {
  if (!saved.ok()) return saved.error();
  return Done{};
}

}  // namespace

bool StateWriter::Job::HasFilesOf(const Job& other) const {
  return state.cpu.SavedDefaultSet() == other.state.cpu.SavedDefaultSet() &&
         state.cpu.assignments == other.state.cpu.assignments &&
         state.cpu.pods == other.state.cpu.pods &&
         state.cpu.originals == other.state.cpu.originals &&
         state.cpu.shares == other.state.cpu.shares && state.memory == other.state.memory &&
         state.devices == other.state.devices &&
         (bindings == other.bindings || *bindings == *other.bindings);
}

bool StateWriter::Job::HasEntriesOf(const Job& other, const std::string& pod_uid) const {
  return HaveSameEntry(state.cpu.assignments, other.state.cpu.assignments, pod_uid) &&
         HaveSameEntry(state.cpu.pods, other.state.cpu.pods, pod_uid) &&
         HaveSameEntry(state.cpu.originals, other.state.cpu.originals, pod_uid) &&
         HaveSameOfPod(state.cpu.shares, other.state.cpu.shares, pod_uid) &&
         HaveSameEntry(state.memory.assignments, other.state.memory.assignments, pod_uid) &&
         HaveSameEntry(state.memory.pods, other.state.memory.pods, pod_uid) &&
         HaveSameOfPod(state.devices.allocations, other.state.devices.allocations, pod_uid) &&
         HaveSameOfPod(*bindings, *other.bindings, pod_uid);
}

StateWriter::StateWriter(const admission::Node& node, CheckpointStore& store,
                         KubeletAllocation& kubelet,
                         std::function<void(std::function<void()>)> reply, AllocationEvents& events)
    : node_(node), store_(store), kubelet_(kubelet), reply_(std::move(reply)), events_(events) {}

void StateWriter::Write(const Job& job, const Written& done) {
  const bool posted = disk_.Post([this, job, done] {
    const auto begun = std::chrono::steady_clock::now();
    events_.WriteBegins();
    const Result<Leftover> saved = Save(job);
    events_.Written(WithoutLeftover(saved), std::chrono::steady_clock::now() - begun);
    reply_([job, done, saved] { done(job, saved); });
  });
  if (posted) return;
  const Result<Leftover> stopped =
      Error{ErrorCode::kUnavailable, "alignd is stopping", "call it again"};
  reply_([job, done, stopped] { done(job, stopped); });
}

// The file of the bindings may have bindings without an assignment, but never lacks one of an
// assignment: it is written first with what is new, and last without what is gone.
Result<StateWriter::Leftover> StateWriter::Save(const Job& job) {
  if (Result<Done> added = kubelet_.SaveNewBindings(*job.bindings); !added.ok()) {
    return added.error();
  }
  if (Result<Done> saved = store_.Save(node_, job.state); !saved.ok()) return saved.error();
  const Result<Done> dropped = kubelet_.SaveBindings(*job.bindings);
  if (dropped.ok()) return Leftover::kNothing;
  // What was assigned is on the disk. The next write repairs this file.
  spdlog::error("bindings of released pods: {}", dropped.error().Text());
  return Leftover::kBindings;
}

}  // namespace alignd::allocation
