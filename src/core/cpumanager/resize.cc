#include "alignd/cpumanager/resize.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "alignd/cpumanager/cpu_packing.h"
#include "core/cpumanager/core_sum.h"
#include "core/cpumanager/core_use.h"
#include "core/cpumanager/node_cpus.h"
#include "core/cpumanager/packed.h"

namespace alignd::cpumanager {
namespace {

Error Impossible(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// Those of the CPUs that can be beside `own`.
CpuSet Usable(const Machine& machine, const PolicyOptions& options, const CpuSet& own,
              const CpuSet& cpus) {
  return (options.full_pcpus_only ? WholeCoresIn(machine, own | cpus) : cpus) - own;
}

// Takes CPUs near those that a container keeps. Used once.
class NearbyCpus {
 public:
  // With full-pcpus-only, `kept` and `usable` have only whole cores.
  NearbyCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& kept,
             const CpuSet& usable, int needed)
      : machine_(machine),
        options_(options),
        kept_(kept),
        usable_(usable),
        needed_(needed),
        own_(machine.NumaOf(kept)) {
    own_sockets_ = GroupsTouching(machine.sockets(), kept);
    if (!options.full_pcpus_only) return;
    const int per_core = machine.cpus_per_core();
    needs_sums_ = needed % per_core != 0;
    for (const CpuGroup& core : machine.cores()) {
      if (!usable.Contains(core.cpus)) continue;
      needs_sums_ = needs_sums_ || core.cpus.Count() != per_core;
      needs_sums_ = needs_sums_ || machine.NumaOf(core.cpus).Count() != 1;
      cores_.push_back(&core);
    }
  }

  Result<CpuSet> Take(NumaMask first) {
    const std::optional<NumaMask> nodes = ChooseNodes(first);
    if (!nodes && needs_sums_) {
      return Impossible("no whole cores have " + Counted(needed_, "CPU") +
                        " in all, which it needs besides its own");
    }
    if (!nodes) return NotEnoughCpus(needed_, usable_.Count());
    if (needs_sums_) return TakeCoresOfAnySize(*nodes);
    // Within its nodes a container has its CPUs near each other; its nodes share them evenly.
    const bool is_spread = options_.distribute_cpus_across_numa;
    options_.distribute_cpus_across_numa = false;
    const Result<Done> taken =
        is_spread ? TakeEvenly(*nodes) : TakeNear(machine_.CpusInNuma(*nodes), needed_);
    if (!taken.ok()) return taken.error();
    return taken_;
  }

 private:
  int UsableOn(NumaMask nodes) const { return usable_.CountCommon(machine_.CpusInNuma(nodes)); }

  std::vector<const CpuGroup*> CoresOn(NumaMask nodes) const {
    const CpuSet cpus = machine_.CpusInNuma(nodes);
    std::vector<const CpuGroup*> cores;
    for (const CpuGroup* core : cores_) {
      if (cpus.Contains(core->cpus)) cores.push_back(core);
    }
    return cores;
  }

  bool HasEnough(NumaMask nodes) const {
    if (UsableOn(nodes) < needed_) return false;
    return !needs_sums_ || CoreSum(CoresOn(nodes), needed_).IsPossible();
  }

  // The kept CPUs' nodes, with further ones if these have too few CPUs: of `first`, or else any.
  std::optional<NumaMask> ChooseNodes(NumaMask first) const {
    if (HasEnough(own_)) return own_;
    if (HasEnough(own_ | first)) return WithFewest(first - own_, first);
    const NumaMask all = machine_.numa_with_cpus();
    if (HasEnough(all)) return WithFewest(all - own_, first);
    return std::nullopt;
  }

  // The kept CPUs' nodes and the fewest of `further` that are enough together.
  NumaMask WithFewest(NumaMask further, NumaMask first) const {
    const int missing = needed_ - UsableOn(own_);
    for (int size = 1; size < further.Count(); ++size) {
      const std::optional<NumaMask> chosen = Nearest(further, size, missing, first);
      if (chosen && HasEnough(own_ | *chosen)) return own_ | *chosen;
    }
    return own_ | further;
  }

  // The nearest `size` nodes that have `missing` CPUs; nullopt if no such nodes have as many.
  std::optional<NumaMask> Nearest(NumaMask further, int size, int missing, NumaMask first) const {
    std::vector<int> nodes(further.begin(), further.end());
    std::ranges::sort(nodes, {}, [&](int node) { return Remoteness(node, first); });
    NumaMask chosen;
    for (auto node = nodes.begin(); node != nodes.end() && chosen.Count() < size; ++node) {
      // Take it if the largest of the later ones can provide the rest.
      std::vector<int> later;
      for (auto other = node + 1; other != nodes.end(); ++other) {
        later.push_back(UsableOn(NumaMask::Of(*other)));
      }
      std::ranges::sort(later, std::greater<>());
      const auto left = static_cast<size_t>(size - chosen.Count() - 1);
      if (left > later.size()) return std::nullopt;
      int reach = UsableOn(chosen | NumaMask::Of(*node));
      for (size_t i = 0; i < left; ++i) reach += later[i];
      if (reach >= missing) chosen.Add(*node);
    }
    return chosen.Count() == size ? std::optional(chosen) : std::nullopt;
  }

  // Nodes with a smaller value are used before others.
  std::tuple<bool, bool, int64_t, int, int> Remoteness(int node, NumaMask first) const {
    int64_t distance = 0;
    for (const int own : own_) distance += machine_.Distance(own, node);
    const bool is_on_own_socket = machine_.CpusInNuma(node).Intersects(own_sockets_);
    return {!first.Contains(node), !is_on_own_socket, distance, UsableOn(NumaMask::Of(node)), node};
  }

  // The places of the machine within `bounds`, nearest first; the last one has all of its CPUs.
  std::vector<CpuSet> Places(const CpuSet& bounds) const {
    const CpuSet on_own_nodes = bounds & machine_.CpusInNuma(own_);
    const CpuSet started = on_own_nodes & GroupsTouching(machine_.cores(), kept_);
    const CpuSet caches = on_own_nodes & GroupsTouching(machine_.uncores(), kept_);
    const CpuSet sockets = on_own_nodes & own_sockets_;
    if (options_.distribute_cpus_across_cores) {
      return {caches - started, sockets - started, on_own_nodes - started, on_own_nodes, bounds};
    }
    return {started, caches, sockets, on_own_nodes, bounds};
  }

  Result<Done> TakeNear(const CpuSet& bounds, int count) {
    for (const CpuSet& place : Places(bounds)) {
      const CpuSet free = (usable_ & place) - taken_;
      const int part = std::min(count, free.Count());
      const Result<CpuSet> cpus = TakeCpus(machine_, options_, free, part);
      if (!cpus.ok()) return cpus.error();
      taken_ |= *cpus;
      count -= part;
    }
    return Done{};
  }

  // The node with the fewest CPUs of the container gets the next ones.
  Result<Done> TakeEvenly(NumaMask nodes) {
    const int group = options_.full_pcpus_only ? machine_.cpus_per_core() : 1;
    std::vector<int> shares(static_cast<size_t>(machine_.numa_count()));
    for (int missing = needed_; missing > 0;) {
      std::optional<std::pair<int, int>> fewest;  // CPUs, node
      for (const int node : nodes) {
        const int share = shares[static_cast<size_t>(node)];
        if (share == UsableOn(NumaMask::Of(node))) continue;
        const int cpus = share + kept_.CountCommon(machine_.CpusInNuma(node));
        if (!fewest || cpus < fewest->first) fewest = {cpus, node};
      }
      if (!fewest) return NotEnoughCpus(needed_, UsableOn(nodes));
      int& share = shares[static_cast<size_t>(fewest->second)];
      const int on_node = UsableOn(NumaMask::Of(fewest->second));
      const int part = std::min({group, missing, on_node - share});
      share += part;
      missing -= part;
    }
    for (const int node : nodes) {
      const Result<Done> taken =
          TakeNear(machine_.CpusInNuma(node), shares[static_cast<size_t>(node)]);
      if (!taken.ok()) return taken.error();
    }
    return Done{};
  }

  // Cores of different sizes (some CPUs are offline, or cores are of different kinds): near ones
  // first, but only those with which the rest still adds up.
  CpuSet TakeCoresOfAnySize(NumaMask nodes) {
    const std::vector<CpuSet> places = Places(machine_.CpusInNuma(nodes));
    std::vector<const CpuGroup*> cores = CoresOn(nodes);
    std::ranges::stable_sort(cores, {}, [&](const CpuGroup* core) {
      return std::ranges::find_if(places,
                                  [&](const CpuSet& place) { return place.Contains(core->cpus); }) -
             places.begin();
    });
    return CoreSum(std::move(cores), needed_).First();
  }

  const Machine& machine_;
  PolicyOptions options_;
  const CpuSet kept_;
  const CpuSet usable_;
  const int needed_;
  const NumaMask own_;
  CpuSet own_sockets_;
  // With full-pcpus-only: the usable cores, and whether numbers of CPUs alone do not say which
  // nodes have enough whole cores.
  std::vector<const CpuGroup*> cores_;
  bool needs_sums_ = false;
  CpuSet taken_;
};

// full-pcpus-only. Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, enforceSMTAlignment.
std::optional<Error> WhyNoWholeCores(const Machine& machine, const ResizeChoice& choice,
                                     const CpuSet& usable) {
  const std::string per_core = std::to_string(machine.cpus_per_core());
  const std::string count = std::to_string(choice.count);
  if (choice.count % machine.cpus_per_core() != 0) {
    return Impossible("SMT Alignment Error: requested " + count +
                      " cpus not multiple cpus per core = " + per_core);
  }
  const CpuSet started = GroupsTouching(machine.cores(), choice.kept);
  if (const CpuSet missing = started - choice.kept - usable; !missing.empty()) {
    return Impossible("it has parts of cores, and cannot have CPUs " + missing.ToString() +
                      " of these cores");
  }
  const int available = (choice.kept | usable).Count();
  if (choice.count <= available && choice.count >= started.Count()) return std::nullopt;
  return Impossible(
      "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = " +
      std::to_string(available) + ", requested CPUs = " + count + ", CPUs per core = " + per_core);
}

// What the pod can be assigned beside `own`; whole cores are required by the options.
CpuSet OfferedBeside(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                     const CpuSet& own) {
  const CpuSet free = state.default_set - policy.reserved;
  if (policy.cores == CoreUse::kWhole) return free - policy.avoided;
  return Offered(machine, policy, free, {}, own);
}

CpuSet OwnCpus(const CpuState& state, const ContainerKey& key) {
  const CpuSet* const own = state.Find(key);
  return own == nullptr ? CpuSet() : *own;
}

// The first exclusive CPUs of a container of the shared pool.
Result<CpuSet> First(const Machine& machine, StaticPolicy policy, const CpuState& state,
                     int64_t count, NumaMask nodes) {
  policy.options.align_by_socket = false;  // `nodes` have enough
  const CpuSet offered = Addable(machine, policy, state, {});
  if (policy.options.full_pcpus_only) {
    if (auto refusal = CheckWholeCores(machine, offered, count)) {
      return Impossible(std::move(refusal->message));
    }
  }
  const topologymanager::TopologyHint affinity{nodes.empty() ? std::nullopt : std::optional(nodes),
                                               true};
  auto [cpus, refusal] = ChooseOffered(machine, policy, offered, affinity, count);
  // With cores of different sizes, whole ones may have to be searched for.
  const bool is_whole = !refusal && WholeCoresIn(machine, cpus) == cpus;
  if (policy.options.full_pcpus_only && !is_whole) {
    return ChooseForResize(machine, policy.options,
                           {.kept = {}, .offered = offered, .count = count, .nodes = nodes});
  }
  if (refusal) return Impossible(std::move(refusal->message));
  return cpus;
}

}  // namespace

CpuSet Addable(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
               const CpuSet& own) {
  return Usable(machine, policy.options, own, OfferedBeside(machine, policy, state, own));
}

topologymanager::HintsByResource ResizeHints(const Machine& machine, const StaticPolicy& policy,
                                             const CpuSet& held, const CpuSet& addable,
                                             int64_t added) {
  return {{"cpu", HintsOver(machine, policy.options, addable, held, held.Count() + added)}};
}

Result<CpuSet> ChooseForResize(const Machine& machine, const PolicyOptions& options,
                               const ResizeChoice& choice) {
  CpuSet kept = choice.kept;
  CpuSet usable = Usable(machine, options, kept, choice.offered);
  if (options.full_pcpus_only) {
    if (auto error = WhyNoWholeCores(machine, choice, usable)) return *error;
    kept = GroupsTouching(machine.cores(), kept);
    usable -= kept;
  }
  const int64_t needed = choice.count - kept.Count();
  if (needed > usable.Count()) return NotEnoughCpus(needed, usable.Count());
  const Result<CpuSet> taken =
      NearbyCpus(machine, options, kept, usable, static_cast<int>(needed)).Take(choice.nodes);
  if (!taken.ok()) return taken.error();
  return kept | *taken;
}

Result<CpuSet> Grown(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                     const ContainerKey& key, int64_t count, NumaMask nodes) {
  const CpuSet own = OwnCpus(state, key);
  if (own.empty()) return First(machine, policy, state, count, nodes);
  return ChooseForResize(machine, policy.options,
                         {.kept = own,
                          .offered = OfferedBeside(machine, policy, state, own),
                          .count = count,
                          .nodes = nodes});
}

Result<CpuSet> Shrunk(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                      const ContainerKey& key, int64_t count, NumaMask nodes) {
  PolicyOptions options = policy.options;
  // Without the option, admission does not look at caches. What stays on fewer caches costs
  // nothing.
  options.prefer_align_cpus_by_uncorecache =
      !options.distribute_cpus_across_cores && !options.distribute_cpus_across_numa;
  const CpuSet& original = state.OriginalOf(key);
  return ChooseForResize(
      machine, options,
      {.kept = original, .offered = *state.Find(key) - original, .count = count, .nodes = nodes});
}

void ApplyResize(const ContainerKey& key, const CpuSet& cpus, CpuState& state) {
  const CpuSet before = OwnCpus(state, key);
  CpuSet& original = state.originals[key.pod_uid].try_emplace(key.container, before).first->second;
  if (cpus.empty()) {
    original = {};
    RemoveAssignment(key, state);
  } else {
    state.assignments[key.pod_uid][key.container] = cpus;
  }
  state.default_set -= cpus;
  ReturnToDefaultSet(before - cpus, state);
}

}  // namespace alignd::cpumanager
