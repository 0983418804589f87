#include "core/topologymanager/merge_lists.h"

#include <algorithm>

namespace alignd::topologymanager {

Choices AllChoices(const Hints& hints) {
  Choices choices;
  for (const TopologyHint& hint : hints.listed()) {
    if (hint.affinity) {
      choices.masks.push_back(*hint.affinity);
    } else {
      choices.any = true;
    }
  }
  choices.described = hints.described();
  return choices;
}

Choices PreferredChoices(const Hints& hints) {
  Choices choices;
  for (const TopologyHint& hint : hints.listed()) {
    if (!hint.preferred) continue;
    if (hint.affinity) {
      choices.masks.push_back(*hint.affinity);
    } else {
      choices.any = true;
    }
  }
  choices.described = hints.described();
  return choices;
}

NumaMask UnionOf(const Choices& choices, NumaMask all) {
  if (choices.any) return all;
  NumaMask nodes;
  for (const NumaMask mask : choices.masks) nodes = nodes | mask;
  if (choices.described != nullptr) nodes = nodes | choices.described->sets.within;
  return nodes;
}

MergeLists::MergeLists(NumaMask all_nodes, const std::vector<Hints>& lists)
    : all(all_nodes), common(all_nodes) {
  for (const Hints& hints : lists) {
    if (hints.empty()) none = true;
    const bool has_mask = hints.described() != nullptr ||
                          std::ranges::any_of(hints.listed(), [](const TopologyHint& hint) {
                            return hint.affinity.has_value();
                          });
    if (has_mask) {
      masked.push_back(&hints);
      common = common & UnionOf(AllChoices(hints), all);
    } else if (std::ranges::none_of(hints.listed(), &TopologyHint::preferred)) {
      may_prefer = false;
    }
  }
}

}  // namespace alignd::topologymanager
