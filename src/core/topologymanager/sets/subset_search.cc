#include "core/topologymanager/sets/subset_search.h"

#include <algorithm>
#include <utility>

namespace alignd::topologymanager {
namespace {

NumaMask Lowest(NumaMask nodes, int count) {
  NumaMask lowest;
  for (const int node : nodes) {
    if (count-- <= 0) break;
    lowest.Add(node);
  }
  return lowest;
}

// Goes through the sets in ascending order: sets without the highest node come first.
class LowestSearch {
 public:
  LowestSearch(SubsetProblem& problem, SearchBudget& budget) : problem_(problem), budget_(budget) {}

  // `lowest_failed`: the lowest of these sets is known not to be accepted.
  std::optional<NumaMask> Find(SetFamily family, bool lowest_failed) {
    if (!family.Settle() || (family.parts.empty() && lowest_failed)) return std::nullopt;
    if (!budget_.Step() || !problem_.IsPossible(family)) return std::nullopt;
    if (!lowest_failed) {
      const NumaMask lowest = family.Lowest();
      if (problem_.Accepts(lowest)) return lowest;
    }
    if (family.parts.empty()) {
      if (!budget_.IsUsedUp()) problem_.NoteImpossible(family);
      return std::nullopt;
    }
    const auto part = static_cast<size_t>(
        std::ranges::max_element(family.parts, {}, [](const auto& p) { return p.open.Highest(); }) -
        family.parts.begin());
    const NumaMask highest = NumaMask::Of(family.parts[part].open.Highest());
    SetFamily rest = family;
    rest.parts[part].open = rest.parts[part].open - highest;
    if (const auto found = Find(rest, true)) return found;
    rest.chosen = rest.chosen | highest;
    --rest.parts[part].need;
    if (const auto found = Find(std::move(rest), false)) return found;
    if (!budget_.IsUsedUp()) problem_.NoteImpossible(family);
    return std::nullopt;
  }

 private:
  SubsetProblem& problem_;
  SearchBudget& budget_;
};

}  // namespace

NumaMask SetFamily::Open() const {
  NumaMask open;
  for (const Part& part : parts) open = open | part.open;
  return open;
}

int SetFamily::Need() const {
  int need = 0;
  for (const Part& part : parts) need += part.need;
  return need;
}

NumaMask SetFamily::Lowest() const {
  NumaMask lowest = chosen;
  for (const Part& part : parts) {
    lowest = lowest | topologymanager::Lowest(part.open, part.need);
  }
  return lowest;
}

bool SetFamily::Settle() {
  for (Part& part : parts) {
    const int count = part.open.Count();
    if (part.need < 0 || part.need > count) return false;
    if (part.need == count) {
      chosen = chosen | part.open;
      part.need = 0;
    }
  }
  std::erase_if(parts, [](const Part& part) { return part.need == 0; });
  return true;
}

std::optional<NumaMask> LowestSubset(SetFamily family, SubsetProblem& problem,
                                     SearchBudget& budget) {
  return LowestSearch(problem, budget).Find(std::move(family), false);
}

}  // namespace alignd::topologymanager
