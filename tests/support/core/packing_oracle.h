// A second implementation of the packing rules, simple and slow: every order is a sort by a tuple,
// every search is exhaustive. Shares no code with src/core/cpumanager.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

class PackingOracle {
 public:
  PackingOracle(const Machine& machine, const PolicyOptions& options)
      : machine_(machine), options_(options) {
    for (const Cpu& row : machine.cpu_rows()) {
      for (const Kind kind : {kCore, kUncore, kSocket, kNuma}) {
        members_[{kind, IdOf(row, kind)}].insert(row.cpu);
      }
    }
  }

  // nullopt if there are too few.
  std::optional<std::set<int>> Take(const std::set<int>& free, int count) {
    if (count <= 0) return std::set<int>{};
    if (static_cast<int>(free.size()) < count) return std::nullopt;
    return options_.distribute_cpus_across_numa ? Distribute(free, count) : Pack(free, count);
  }

 private:
  enum Kind { kCore, kUncore, kSocket, kNuma };
  using Unit = std::pair<Kind, int>;
  using Key = std::vector<int>;

  static int IdOf(const Cpu& row, Kind kind) {
    switch (kind) {
      case kCore:
        return row.core;
      case kUncore:
        return row.uncore;
      case kSocket:
        return row.socket;
      case kNuma:
        return row.numa;
    }
    return -1;
  }

  int Of(int cpu, Kind kind) const { return IdOf(machine_.Row(cpu), kind); }

  const std::set<int>& Members(Unit unit) const { return members_.at(unit); }

  std::set<int> FreeMembers(Unit unit) const {
    std::set<int> cpus;
    for (const int cpu : Members(unit)) {
      if (free_.contains(cpu)) cpus.insert(cpu);
    }
    return cpus;
  }

  int CountOf(Kind kind) const {
    return static_cast<int>(std::ranges::count_if(
        members_, [&](const auto& unit) { return unit.first.first == kind; }));
  }

  int Total() const { return static_cast<int>(machine_.cpu_rows().size()); }
  Kind Upper() const { return CountOf(kSocket) >= CountOf(kNuma) ? kNuma : kSocket; }
  Kind Lower() const { return Upper() == kNuma ? kSocket : kNuma; }

  void Append(Key& key, Unit unit) const {
    key.push_back(static_cast<int>(FreeMembers(unit).size()));
    key.push_back(unit.second);
  }

  // The place of a unit of the lower level: every pair of upper and lower unit that a free CPU has.
  std::map<int, std::vector<Key>> LowerPlaces() const {
    std::map<int, std::vector<Key>> places;
    for (const int cpu : free_) {
      Key key;
      Append(key, {Upper(), Of(cpu, Upper())});
      Append(key, {Lower(), Of(cpu, Lower())});
      places[Of(cpu, Lower())].push_back(key);
    }
    return places;
  }

  // Units of that kind with a free CPU, each at every place where it occurs, in order.
  std::vector<int> InOrder(Kind kind) const {
    std::set<std::pair<Key, int>> sorted;
    const std::map<int, std::vector<Key>> places = LowerPlaces();
    for (const int cpu : free_) {
      const int id = Of(cpu, kind);
      if (kind == Upper()) {
        Key key;
        Append(key, {kind, id});
        sorted.insert({key, id});
        continue;
      }
      // Cores lie in the lower level; caches in NUMA nodes, wherever those stand.
      const bool below_upper = kind == kUncore && Upper() == kNuma;
      std::vector<Key> bases;
      if (below_upper) {
        Key key;
        Append(key, {kNuma, Of(cpu, kNuma)});
        bases = {key};
      } else {
        bases = places.at(Of(cpu, Lower()));
      }
      for (Key key : bases) {
        if (kind != Lower()) Append(key, {kind, id});
        sorted.insert({key, id});
      }
    }
    std::vector<int> ids;
    for (const auto& [key, id] : sorted) ids.push_back(id);
    return ids;
  }

  void TakeCpu(int cpu) {
    taken_.insert(cpu);
    free_.erase(cpu);
    --needed_;
  }

  void TakeWholeUnits(Kind kind) {
    for (const int id : InOrder(kind)) {
      const std::set<int>& cpus = Members({kind, id});
      const bool all_free = FreeMembers({kind, id}) == cpus;
      const bool average_matters = kind == kCore || kind == kSocket;
      if (average_matters && static_cast<int>(cpus.size()) != Total() / CountOf(kind)) continue;
      if (!all_free || static_cast<int>(cpus.size()) > needed_) continue;
      for (const int cpu : cpus) TakeCpu(cpu);
    }
  }

  void TakeFromCache(int cache) {
    const int per_core = Total() / CountOf(kCore);
    std::set<int> cores;
    for (const int cpu : FreeMembers({kUncore, cache})) cores.insert(Of(cpu, kCore));
    std::vector<int> cpus;
    int cores_needed = static_cast<int>(std::ceil(1.0 * needed_ / per_core));
    for (const int core : cores) {
      if (cores_needed-- <= 0) break;
      for (const int cpu : FreeMembers({kCore, core})) cpus.push_back(cpu);
    }
    std::ranges::sort(cpus);
    if (needed_ % 2 == 1 && per_core > 1 && static_cast<int>(cpus.size()) > needed_) {
      cpus.pop_back();
    }
    if (static_cast<int>(cpus.size()) != needed_) return;
    for (const int cpu : cpus) TakeCpu(cpu);
  }

  void TakeCaches() {
    for (const int cache : InOrder(kUncore)) {
      if (needed_ >= Total() / CountOf(kUncore)) TakeWholeUnits(kUncore);
      if (needed_ == 0) return;
      TakeFromCache(cache);
      if (needed_ == 0) return;
    }
  }

  void TakeSingles(Kind kind) {
    for (const int id : InOrder(kind)) {
      for (const int cpu : FreeMembers({kind, id})) {
        if (needed_ > 0) TakeCpu(cpu);
      }
    }
  }

  std::set<int> Pack(const std::set<int>& free, int count) {
    free_ = free;
    taken_.clear();
    needed_ = count;
    TakeWholeUnits(Upper());
    TakeWholeUnits(Lower());
    if (options_.prefer_align_cpus_by_uncorecache && needed_ > 0) TakeCaches();
    if (options_.distribute_cpus_across_cores) {
      TakeSingles(kSocket);
    } else {
      TakeWholeUnits(kCore);
      TakeSingles(kCore);
    }
    return taken_;
  }

  static double Deviation(const std::vector<int>& numbers) {
    double sum = 0;
    for (const int number : numbers) sum += number;
    const double mean = std::round(sum / static_cast<double>(numbers.size()) * 1000) / 1000;
    double squares = 0;
    for (const int number : numbers) squares += std::pow(number - mean, 2);
    return std::round(std::sqrt(squares / static_cast<double>(numbers.size())) * 1000) / 1000;
  }

  // All subsets of that size in lexical order.
  static std::vector<std::vector<int>> Subsets(const std::vector<int>& items, int size) {
    std::vector<std::vector<int>> subsets;
    for (unsigned bits = 1; bits < 1U << items.size(); ++bits) {
      std::vector<int> subset;
      for (size_t i = 0; i < items.size(); ++i) {
        if ((bits >> i & 1U) != 0) subset.push_back(items[i]);
      }
      if (static_cast<int>(subset.size()) == size) subsets.push_back(subset);
    }
    std::ranges::sort(subsets);
    return subsets;
  }

  struct Plan {
    double balance = std::numeric_limits<double>::max();
    std::vector<int> turns;  // nodes that provide one group, in order
  };

  // The groups of the best subset of `nodes` after the even share; `available` is by position.
  static Plan BestPlan(const std::vector<int>& available, const std::vector<int>& nodes, int rest,
                       int group) {
    if (rest == 0) return {Deviation(available), {}};
    std::vector<int> able;
    for (const int node : nodes) {
      if (available[static_cast<size_t>(node)] >= group) able.push_back(node);
    }
    Plan best;
    for (int size = static_cast<int>(able.size()); size > 0; --size) {
      for (const std::vector<int>& givers : Subsets(able, size)) {
        std::vector<int> after = available;
        Plan plan;
        int open = rest;
        for (bool progress = true; open > 0 && progress;) {
          progress = false;
          for (const int node : givers) {
            int& free = after[static_cast<size_t>(node)];
            if (open == 0 || free < group) continue;
            free -= group;
            open -= group;
            plan.turns.push_back(node);
            progress = true;
          }
        }
        if (open > 0) continue;
        plan.balance = Deviation(after);
        if (plan.balance < best.balance) best = plan;
      }
    }
    return best;
  }

  std::set<int> TakeShares(std::set<int> free, const std::vector<int>& order,
                           const std::vector<std::pair<int, int>>& shares) {
    std::set<int> taken;
    for (const auto& [position, cpus] : shares) {
      std::set<int> here;
      for (const int cpu : free) {
        if (Of(cpu, kNuma) == order[static_cast<size_t>(position)]) here.insert(cpu);
      }
      for (const int cpu : Pack(here, cpus)) {
        taken.insert(cpu);
        free.erase(cpu);
      }
    }
    return taken;
  }

  std::set<int> Distribute(const std::set<int>& free, int count) {
    const int group = options_.full_pcpus_only ? Total() / CountOf(kCore) : 1;
    if (count % group != 0) return Pack(free, count);
    free_ = free;
    std::vector<int> order;
    for (const int node : InOrder(kNuma)) {
      if (std::ranges::find(order, node) == order.end()) order.push_back(node);
    }
    std::vector<int> positions;
    std::vector<int> free_on;
    for (const int node : order) {
      positions.push_back(static_cast<int>(positions.size()));
      free_on.push_back(static_cast<int>(FreeMembers({kNuma, node}).size()));
    }
    const double per_node = std::ceil(std::ceil(1.0 * Total() / group) / CountOf(kNuma));
    const int fewest = static_cast<int>(std::ceil(1.0 * count / group / per_node));
    const int most = std::min(count / group, static_cast<int>(order.size()));
    for (int size = fewest; size <= most; ++size) {
      Plan best;
      std::vector<std::pair<int, int>> shares;
      for (const std::vector<int>& nodes : Subsets(positions, size)) {
        const int share = count / size / group * group;
        bool possible = true;
        int in_groups = 0;
        std::vector<int> available = free_on;
        for (const int node : nodes) {
          const int here = free_on[static_cast<size_t>(node)];
          possible = possible && here >= share;
          in_groups += here - here % group;
          available[static_cast<size_t>(node)] -= share;
        }
        if (!possible || in_groups < count) continue;
        const Plan plan = BestPlan(available, nodes, count - share * size, group);
        if (plan.balance >= best.balance) continue;
        best = plan;
        shares.clear();
        for (const int node : nodes) shares.emplace_back(node, share);
        for (const int node : plan.turns) shares.emplace_back(node, group);
      }
      if (!shares.empty()) return TakeShares(free, order, shares);
    }
    return Pack(free, count);
  }

  const Machine& machine_;
  const PolicyOptions options_;
  std::map<Unit, std::set<int>> members_;
  std::set<int> free_;
  std::set<int> taken_;
  int needed_ = 0;
};

}  // namespace alignd::cpumanager
