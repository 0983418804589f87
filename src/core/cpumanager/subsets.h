// Walking through the subsets of a list.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace alignd::cpumanager {

// Calls `visit(subset)` for every subset of `size` items, in lexical order of their places in the
// list, until it returns false. `subset` is the caller's to keep: it is a fresh value each time.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, iterateCombinations.
// Differs: there all subsets share memory, so one that is kept is overwritten by later ones.
template <typename Item, typename Visit>
void ForEachSubset(const std::vector<Item>& items, size_t size, Visit visit) {
  if (size == 0 || size > items.size()) return;
  std::vector<size_t> places(size);
  std::iota(places.begin(), places.end(), size_t{0});
  for (;;) {
    std::vector<Item> subset;
    subset.reserve(size);
    for (const size_t place : places) subset.push_back(items[place]);
    if (!visit(subset)) return;
    // Advance the last place that is not yet at its end; those behind it follow closely.
    size_t last = size;
    while (last > 0 && places[last - 1] == items.size() - size + last - 1) --last;
    if (last == 0) return;
    std::iota(places.begin() + static_cast<std::ptrdiff_t>(last - 1), places.end(),
              places[last - 1] + 1);
  }
}

}  // namespace alignd::cpumanager
