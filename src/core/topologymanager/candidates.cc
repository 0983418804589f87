#include "core/topologymanager/candidates.h"

#include <algorithm>
#include <compare>
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

}  // namespace

std::vector<TopologyHint> Candidates(NumaMask all, const std::vector<HintList>& lists,
                                     bool as_1_20) {
  std::vector<TopologyHint> candidates;
  for (const Reached& reached : ReachableMasks(all, lists, as_1_20)) {
    candidates.push_back({reached.mask, reached.standing != Standing::kNotPreferred});
  }
  return candidates;
}

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

TopologyHint Judge::Better(const TopologyHint& current, const TopologyHint& candidate) const {
  if (current.preferred != candidate.preferred) return current.preferred ? current : candidate;
  if (current.preferred || rules_.as_1_20) return Fitter(current, candidate);
  return BetterNonPreferred(current, candidate);
}

TopologyHint Judge::BetterNonPreferred(const TopologyHint& current,
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

TopologyHint Judge::Fitter(const TopologyHint& current, const TopologyHint& candidate) const {
  const NumaMask mask = rules_.prefer_closest
                            ? numa_.Closer(*current.affinity, *candidate.affinity)
                            : numa_.Narrower(*current.affinity, *candidate.affinity);
  return mask == *current.affinity ? current : candidate;
}

}  // namespace alignd::topologymanager
