#include "core/topologymanager/sets/set_family.h"

#include <algorithm>

namespace alignd::topologymanager {
namespace {

NumaMask LowestNodes(NumaMask nodes, int count) {
  NumaMask lowest;
  for (const int node : nodes) {
    if (count-- <= 0) break;
    lowest.Add(node);
  }
  return lowest;
}

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

bool SetFamily::Contains(NumaMask set) const {
  if (!set.Contains(chosen) || !(chosen | Open()).Contains(set)) return false;
  return std::ranges::all_of(
      parts, [&](const Part& part) { return (part.open & set).Count() == part.need; });
}

NumaMask SetFamily::Lowest() const {
  NumaMask lowest = chosen;
  for (const Part& part : parts) lowest = lowest | LowestNodes(part.open, part.need);
  return lowest;
}

size_t SetFamily::HighestPart() const {
  const auto* const highest =
      std::ranges::max_element(parts, {}, [](const Part& part) { return part.open.Highest(); });
  return static_cast<size_t>(highest - parts.begin());
}

SetFamily SetFamily::Without(NumaMask nodes, size_t part) const {
  SetFamily rest = *this;
  rest.parts[part].open = rest.parts[part].open - nodes;
  return rest;
}

SetFamily SetFamily::With(NumaMask node, size_t part) const {
  SetFamily rest = Without(node, part);
  rest.chosen = rest.chosen | node;
  --rest.parts[part].need;
  return rest;
}

bool SetFamily::Settle() {
  for (size_t i = 0; i < parts.size();) {
    const int count = parts[i].open.Count();
    if (parts[i].need < 0 || parts[i].need > count) return false;
    if (parts[i].need == count) chosen = chosen | parts[i].open;
    if (parts[i].need == count || parts[i].need == 0) {
      parts.Remove(i);
    } else {
      ++i;
    }
  }
  return true;
}

}  // namespace alignd::topologymanager
