#include "core/placement/numa_search.h"

#include <algorithm>
#include <functional>

namespace alignd::placement {
namespace {

// Items and parts that are put on a NUMA node, in one search. More is seldom, and means that it is
// not known.
constexpr int kMaxSteps = 5000;

bool Has(const AmountRow& free, const AmountRow& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] > 0 && free[i] < wanted[i]) return false;
  }
  return true;
}

void Add(const AmountRow& from, int64_t sign, AmountRow& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += sign * from[i];
}

class Search {
 public:
  explicit Search(const NumaQuestion& question) : question_(question), free_(question.free) {}

  // Calls `then` for all places of the rows, until it returns true.
  bool AnyPlaces(const std::vector<AmountRow>& rows, size_t next,
                 const std::function<bool()>& then) {
    if (next == rows.size()) return then();
    for (AmountRow& numa : free_) {
      if (!Has(numa, rows[next])) continue;
      if (++steps_ > kMaxSteps) return true;
      Add(rows[next], -1, numa);
      const bool is_found = AnyPlaces(rows, next + 1, then);
      Add(rows[next], 1, numa);
      if (is_found) return true;
    }
    return false;
  }

  // The parts from `next` on, each on a NUMA node that can have it if nothing is split there.
  bool AnyPartWithout(size_t next) {
    has_places_ = true;
    if (next == question_.parts.size()) return false;
    const AmountRow& part = question_.parts[next];
    const bool is_sure = std::ranges::any_of(free_, [&](AmountRow numa) {
      Add(question_.split, -1, numa);
      return Has(numa, part);
    });
    if (!is_sure) return true;
    for (AmountRow& numa : free_) {
      if (!Has(numa, part)) continue;
      if (++steps_ > kMaxSteps) return true;
      Add(part, -1, numa);
      const bool is_found = AnyPartWithout(next + 1);
      Add(part, 1, numa);
      if (is_found) return true;
    }
    return false;
  }

  bool has_places() const { return has_places_; }

 private:
  const NumaQuestion& question_;
  std::vector<AmountRow> free_;
  int steps_ = 0;
  bool has_places_ = false;
};

}  // namespace

bool CanFindNone(const NumaQuestion& question) {
  // Each item is on one NUMA node. If more of them have all parts at once, one is left.
  AmountRow all(question.split.size());
  for (const AmountRow& part : question.parts) Add(part, 1, all);
  for (size_t i = 0; i < all.size(); ++i) all[i] += all[i] > 0 ? question.split[i] : 0;
  const auto nodes =
      std::ranges::count_if(question.free, [&](const AmountRow& numa) { return Has(numa, all); });
  if (nodes > std::ssize(question.items)) return false;
  Search search(question);
  const bool is_found =
      search.AnyPlaces(question.items, 0, [&] { return search.AnyPartWithout(0); });
  return is_found || !search.has_places();
}

bool CanFindAll(const NumaQuestion& question) {
  for (const AmountRow& part : question.parts) {
    const auto has_it = [&part](const AmountRow& numa) { return Has(numa, part); };
    if (std::ranges::none_of(question.free, has_it)) return false;
  }
  Search search(question);
  return search.AnyPlaces(question.items, 0,
                          [&] { return search.AnyPlaces(question.parts, 0, [] { return true; }); });
}

}  // namespace alignd::placement
