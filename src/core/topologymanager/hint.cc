#include "alignd/topologymanager/hint.h"

#include <algorithm>

#include "alignd/base/numa_subsets.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {
namespace {

// Finds the members of a family in ascending order: sets without the highest node come first.
class Listing {
 public:
  Listing(const SetTable& table, size_t most) : table_(table), most_(most) {}

  bool IsFull() const { return seen_.size() == most_; }
  const std::vector<NumaMask>& seen() const { return seen_; }

  void Add(SetFamily family, SearchBudget& budget) {
    if (IsFull() || !family.Settle() || !budget.Step() || !IsPossible(family)) return;
    if (family.parts.empty()) {
      seen_.push_back(family.chosen);
      return;
    }
    const size_t part = family.HighestPart();
    const NumaMask highest = NumaMask::Of(family.parts[part].open.Highest());
    Add(family.Without(highest, part), budget);
    Add(family.With(highest, part), budget);
  }

 private:
  // Exact for a family with one set.
  bool IsPossible(const SetFamily& family) const {
    return std::ranges::all_of(table_.demands, [&](const auto& demand) {
      return demand.AtMost(family) >= demand.wanted();
    });
  }

  const SetTable& table_;
  const size_t most_;
  std::vector<NumaMask> seen_;
};

std::vector<NumaMask> NarrowestMembers(const NodeSets& sets, size_t most) {
  const SetTable table(sets);
  Listing listing(table, most);
  SearchBudget budget;
  for (int size = 1; size <= sets.within.Count() && !listing.IsFull(); ++size) {
    listing.Add({{}, {{sets.within, size}}}, budget);
  }
  return listing.seen();
}

void SortNarrowestFirst(HintList& hints) {
  std::ranges::stable_sort(hints, [](const TopologyHint& a, const TopologyHint& b) {
    return a.affinity.value_or(NumaMask()).IsNarrowerThan(b.affinity.value_or(NumaMask()));
  });
}

}  // namespace

bool DescribedHints::IsPreferred(NumaMask set) const {
  if (set.Count() == preferred_nodes) return true;
  if (groups.empty()) return false;
  const auto touched =
      std::ranges::count_if(groups, [&](NumaMask group) { return group.Intersects(set); });
  return touched == preferred_groups;
}

Hints::Hints(HintList listed, DescribedHints described)
    : listed_(std::move(listed)), exact_(described.exact) {
  if (!described.sets.Contains(described.sets.within)) return;
  described_ = std::make_shared<const DescribedHints>(std::move(described));
}

HintList Hints::All() const {
  HintList hints = listed_;
  if (described_ == nullptr) return hints;
  ForEachSubset(described_->sets.within, [&](NumaMask set) {
    if (described_->sets.Contains(set)) hints.push_back({set, described_->IsPreferred(set)});
  });
  SortNarrowestFirst(hints);
  return hints;
}

bool Hints::IsShownFully() const {
  return described_ == nullptr || described_->sets.within.Count() <= kNodesShownFully;
}

HintList Hints::Shown() const {
  if (IsShownFully()) return All();
  HintList hints = listed_;
  for (const NumaMask set : NarrowestMembers(described_->sets, kMaxShown)) {
    hints.push_back({set, described_->IsPreferred(set)});
  }
  SortNarrowestFirst(hints);
  return hints;
}

bool operator==(const Hints& a, const Hints& b) {
  if (a.listed_ != b.listed_ || a.exact_ != b.exact_) return false;
  if (a.described_ == nullptr || b.described_ == nullptr) return a.described_ == b.described_;
  return *a.described_ == *b.described_;
}

}  // namespace alignd::topologymanager
