#include "alignd/topologymanager/hint_merger.h"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace alignd::topologymanager {
namespace {

// What a partial combination can still become. Of two combinations with the same mask only the
// higher one needs to be kept: whatever follows, it ends at least as well.
enum class Standing : uint8_t {
  kNotPreferred,
  kPreferred,  // every hint so far is preferred, and, since 1.36, all masks so far are equal
  kUnmasked,   // the same, and no hint so far had a mask
};

// The result of one or more combinations of the lists seen so far. `mask` is not empty.
struct Reached {
  NumaMask mask;
  Standing standing;

  friend auto operator<=>(const Reached&, const Reached&) = default;
};

// One hint more. The mask may come out empty, which is never a candidate.
Reached Combine(const Reached& reached, const TopologyHint& hint, bool as_1_20) {
  Reached next = reached;
  if (hint.affinity) next.mask = reached.mask & *hint.affinity;
  if (!hint.preferred) {
    next.standing = Standing::kNotPreferred;
  } else if (hint.affinity && reached.standing != Standing::kNotPreferred) {
    const bool agrees =
        as_1_20 || reached.standing == Standing::kUnmasked || reached.mask == *hint.affinity;
    next.standing = agrees ? Standing::kPreferred : Standing::kNotPreferred;
  }
  return next;
}

// Keeps the best standing of each mask.
void KeepBestPerMask(std::vector<Reached>& reached) {
  std::sort(reached.begin(), reached.end(), std::greater<>());
  const auto same_mask = [](const Reached& a, const Reached& b) { return a.mask == b.mask; };
  reached.erase(std::unique(reached.begin(), reached.end(), same_mask), reached.end());
}

// The distinct masks that combinations of one hint per list reach.
std::vector<Reached> ReachableMasks(NumaMask all, const std::vector<HintList>& lists,
                                    bool as_1_20) {
  std::vector<Reached> reached = {{all, Standing::kUnmasked}};
  for (const HintList& list : lists) {
    std::vector<Reached> next;
    next.reserve(reached.size() * list.size());
    for (const Reached& from : reached) {
      for (const TopologyHint& hint : list) {
        const Reached combined = Combine(from, hint, as_1_20);
        if (!combined.mask.empty()) next.push_back(combined);
      }
    }
    KeepBestPerMask(next);
    reached = std::move(next);
  }
  return reached;
}

// The largest, over all lists, of the node count of the list's narrowest mask: no combination that
// satisfies every resource can be expected to have fewer nodes.
int BestNonPreferredCount(const std::vector<HintList>& lists) {
  int largest = 0;
  for (const HintList& list : lists) {
    int smallest = 0;
    for (const TopologyHint& hint : list) {
      if (hint.affinity && (smallest == 0 || hint.affinity->Count() < smallest)) {
        smallest = hint.affinity->Count();
      }
    }
    largest = std::max(largest, smallest);
  }
  return largest;
}

// The order in which complete combinations are judged.
class Judge {
 public:
  Judge(const NumaInfo& numa, const MergeRules& rules, int best_count)
      : numa_(numa), rules_(rules), best_count_(best_count) {}

  TopologyHint Better(const TopologyHint& current, const TopologyHint& candidate) const {
    if (current.preferred != candidate.preferred) return current.preferred ? current : candidate;
    if (current.preferred || rules_.as_1_20) return Fitter(current, candidate);
    return BetterNonPreferred(current, candidate);
  }

 private:
  // Neither is preferred. The node count that comes closest to `best_count_` from below wins; if
  // both are above it, the smaller.
  //   1. current above:  fewer nodes win, even below best_count_.
  //   2. current at it:  only another one at it can win.
  //   3. current below:  one above loses, one at it wins, of two below the larger wins.
  // Source: policy.go, compare.
  TopologyHint BetterNonPreferred(const TopologyHint& current,
                                  const TopologyHint& candidate) const {
    const int current_count = current.affinity->Count();
    const int candidate_count = candidate.affinity->Count();
    if (current_count > best_count_) return Fitter(current, candidate);
    if (current_count == best_count_) {
      return candidate_count == best_count_ ? Fitter(current, candidate) : current;
    }
    if (candidate_count > best_count_) return current;
    if (candidate_count == current_count) return Fitter(current, candidate);
    return candidate_count > current_count ? candidate : current;
  }

  TopologyHint Fitter(const TopologyHint& current, const TopologyHint& candidate) const {
    const NumaMask mask = rules_.prefer_closest
                              ? numa_.Closer(*current.affinity, *candidate.affinity)
                              : numa_.Narrower(*current.affinity, *candidate.affinity);
    return mask == *current.affinity ? current : candidate;
  }

  const NumaInfo& numa_;
  const MergeRules& rules_;
  const int best_count_;
};

}  // namespace

TopologyHint MergeHints(const NumaInfo& numa, const std::vector<HintList>& lists,
                        const MergeRules& rules) {
  const std::vector<Reached> reached = ReachableMasks(numa.all(), lists, rules.as_1_20);
  if (reached.empty()) return {numa.all(), false};
  const Judge judge(numa, rules, BestNonPreferredCount(lists));
  const auto hint_of = [](const Reached& r) {
    return TopologyHint{r.mask, r.standing != Standing::kNotPreferred};
  };
  TopologyHint best = hint_of(reached.front());
  for (const Reached& candidate : reached) best = judge.Better(best, hint_of(candidate));
  return best;
}

}  // namespace alignd::topologymanager
