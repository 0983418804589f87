#include "core/topologymanager/search/exclusion_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace alignd::topologymanager {
namespace {

constexpr int kFirstRounds = 40;
constexpr int kRounds = 6;

}  // namespace

// Of each list, what it can spare of each demand, and how many nodes it can spare, has a price. A
// node costs the sum of what it takes, each as a share of what can be spared.
class ExclusionSearch::Prices {
 public:
  // Starts with the prices of `before`, if there are any.
  Prices(const ExclusionSearch& search, const State& state, const Prices* before)
      : nodes_(state.family.chosen | state.family.Open()) {
    for (size_t list = 0; list < state.left.size(); ++list) {
      const Availability& left = state.left[list];
      List& priced = lists_.emplace_back();
      for (const int node : nodes_) {
        if (search.CanSpare(list, left, node)) priced.nodes.Add(node);
      }
      for (size_t i = 0; i < left.spare.size(); ++i) {
        Losses losses = {};
        for (const int node : priced.nodes) {
          losses[At(node)] = search.Loss(list, i, node, left.nodes);
        }
        AddRows(losses, left.spare[i], priced);
      }
      const int most = search.MostLeftOut(list, left, priced.nodes);
      if (most == 0) priced.nodes = {};
      most_in_all_ += most;
      Row& row = priced.rows.emplace_back();
      for (const int node : priced.nodes) row.shares[At(node)] = 1.0 / most;
      for (size_t i = 0; i < priced.rows.size(); ++i) {
        priced.rows[i].price = before != nullptr ? before->lists_[list].rows[i].price
                                                 : 1.0 / static_cast<double>(priced.rows.size());
      }
    }
    SumUp(state.family);
  }

  // Whether what is to be left out costs more than all that can be spared is worth.
  bool ProveImpossible() const {
    constexpr double kRounding = 1e-6;  // far more than sums over 64 nodes can be off
    return sum_ > worth_ * (1 + kRounding) || static_cast<int>(cheapest_.size()) > most_in_all_;
  }

  // The cheapest nodes that have to be left out, the dearest first.
  const std::vector<int>& nodes() const { return cheapest_; }
  // The lists that can do without the node, the cheapest first.
  std::vector<size_t> ListsFor(int node) const {
    std::vector<size_t> order;
    for (size_t list = 0; list < lists_.size(); ++list) {
      if (lists_[list].nodes.Contains(node)) order.push_back(list);
    }
    std::ranges::stable_sort(order, {}, [&](size_t list) { return lists_[list].costs[At(node)]; });
    return order;
  }

  // Raises the prices of what is asked for too much, and lowers the others; the less, the later the
  // round.
  void Adjust(int round, const SetFamily& family) {
    for (List& list : lists_) {
      for (Row& row : list.rows) {
        double used = 0;
        for (const int node : cheapest_) {
          if (!list.nodes.Contains(node) || list.costs[At(node)] > Bound(node)) continue;
          used += row.shares[At(node)] / equal_[At(node)];
        }
        row.price *= std::pow(std::clamp(used, 0.1, 10.0), 0.7 / (1 + 0.3 * round));
      }
    }
    SumUp(family);
  }

 private:
  using PerNode = std::array<double, NumaMask::kMaxNodes>;

  struct Row {
    PerNode shares = {};
    double price = 0;
  };

  struct List {
    NumaMask nodes;  // that it can spare
    std::vector<Row> rows;
    PerNode costs;
  };

  using Losses = std::array<uint64_t, NumaMask::kMaxNodes>;

  // One row with the shares as they are; and one that knows that nodes are left out as a whole: of
  // what is spare there are `count` of the largest losses, so a loss that is not worth one in
  // `count` + 1 counts nothing, and one that is worth more than that, one in `count`. Of no set the
  // sum gets above 1 by that.
  static void AddRows(const Losses& losses, uint64_t spare, List& list) {
    Row exact;
    Row rounded;
    const uint64_t largest = std::max(uint64_t{1}, *std::ranges::max_element(losses));
    const uint64_t count = std::min(spare / largest, uint64_t{NumaMask::kMaxNodes});
    for (const int node : list.nodes) {
      const uint64_t loss = losses[At(node)];
      const double share = static_cast<double>(loss) / std::max(1.0, static_cast<double>(spare));
      exact.shares[At(node)] = share;
      const bool is_whole = spare == 0 || loss * (count + 1) % spare == 0;
      const uint64_t whole = is_whole ? 0 : loss * (count + 1) / spare;
      rounded.shares[At(node)] =
          is_whole ? share : static_cast<double>(whole) / static_cast<double>(count);
    }
    list.rows.push_back(exact);
    if (count == 0 || largest >= uint64_t{1} << 56) rounded = {};
    list.rows.push_back(rounded);
  }

  static size_t At(int node) { return static_cast<size_t>(node); }
  // What costs no more than this is as cheap as the cheapest.
  double Bound(int node) const { return cost_[At(node)] * (1 + 1e-9); }

  void SumUp(const SetFamily& family) {
    worth_ = 0;
    cost_.fill(std::numeric_limits<double>::infinity());
    for (List& list : lists_) {
      list.costs = {};
      for (const Row& row : list.rows) {
        worth_ += row.price;
        for (const int node : list.nodes) list.costs[At(node)] += row.price * row.shares[At(node)];
      }
      for (const int node : list.nodes) {
        cost_[At(node)] = std::min(cost_[At(node)], list.costs[At(node)]);
      }
    }
    for (const int node : nodes_) {
      equal_[At(node)] = static_cast<int>(std::ranges::count_if(lists_, [&](const List& list) {
        return list.nodes.Contains(node) && list.costs[At(node)] <= Bound(node);
      }));
    }
    const auto cost_of = [&](int node) { return cost_[At(node)]; };
    cheapest_.assign(family.chosen.begin(), family.chosen.end());
    for (const SetFamily::Part& part : family.parts) {
      std::vector<int> open(part.open.begin(), part.open.end());
      std::ranges::stable_sort(open, {}, cost_of);
      cheapest_.insert(cheapest_.end(), open.begin(), open.begin() + part.need);
    }
    std::ranges::stable_sort(cheapest_, std::greater<>(), cost_of);
    sum_ = 0;
    for (const int node : cheapest_) sum_ += cost_of(node);
  }

  const NumaMask nodes_;
  std::vector<List> lists_;
  PerNode cost_;                                     // in the cheapest list
  std::array<int, NumaMask::kMaxNodes> equal_ = {};  // so many lists are equally cheap
  std::vector<int> cheapest_;
  int most_in_all_ = 0;  // nodes that the lists can spare, by their number
  double sum_ = 0;
  double worth_ = 0;
};

ExclusionSearch::ExclusionSearch(std::vector<const SetTable*> lists, SearchBudget& budget)
    : lists_(std::move(lists)), budget_(budget), kinds_(lists_, {}) {
  for (const SetTable* list : lists_) shared_nodes_ = shared_nodes_ | list->shared_nodes();
}

bool ExclusionSearch::IsCheaper(int a, int b) const {
  if (shared_nodes_.Contains(a) || shared_nodes_.Contains(b)) return false;
  return std::ranges::all_of(lists_, [&](const SetTable* list) {
    return std::ranges::all_of(list->demands, [&](const DemandTable& demand) {
      return demand.OnNode(a) <= demand.OnNode(b);
    });
  });
}

NumaMask ExclusionSearch::CheaperThan(int node, NumaMask of) const {
  NumaMask cheaper;
  for (const int other : of) {
    if (IsCheaper(other, node) && (other < node || !IsCheaper(node, other))) cheaper.Add(other);
  }
  return cheaper;
}

NumaMask ExclusionSearch::DearerThan(int node, NumaMask of) const {
  NumaMask dearer;
  for (const int other : of) {
    if (IsCheaper(node, other) && (node < other || !IsCheaper(other, node))) dearer.Add(other);
  }
  return dearer;
}

uint64_t ExclusionSearch::Loss(size_t list, size_t demand, int node, NumaMask left) const {
  return lists_[list]->demands[demand].GainOf(node, left - NumaMask::Of(node));
}

bool ExclusionSearch::CanSpare(size_t list, const Availability& left, int node) const {
  for (size_t i = 0; i < left.spare.size(); ++i) {
    if (Loss(list, i, node, left.nodes) > left.spare[i]) return false;
  }
  return left.nodes != NumaMask::Of(node);
}

int ExclusionSearch::MostLeftOut(size_t list, const Availability& left, NumaMask nodes) const {
  int most = nodes.Count();
  for (const DemandTable& demand : lists_[list]->demands) {
    most = std::min(most, demand.AtMostLeftOut(left.nodes, nodes));
  }
  return most;
}

void ExclusionSearch::LeaveOut(size_t list, Availability& left, int node) const {
  for (size_t i = 0; i < left.spare.size(); ++i) left.spare[i] -= Loss(list, i, node, left.nodes);
  left.nodes = left.nodes - NumaMask::Of(node);
}

bool ExclusionSearch::CanLeaveOut(SetFamily family) {
  State state{.left = {}, .family = std::move(family)};
  for (const SetTable* list : lists_) {
    Availability& left = state.left.emplace_back(Availability{.nodes = list->within, .spare = {}});
    if (!list->Contains(left.nodes)) return false;
    for (const DemandTable& demand : list->demands) {
      left.spare.push_back(demand.AmountOf(left.nodes) - demand.wanted());
    }
  }
  return Find(std::move(state), nullptr);
}

bool ExclusionSearch::Follow(const State& state, const Prices& prices) const {
  std::vector<Availability> left = state.left;
  return std::ranges::all_of(prices.nodes(), [&](int node) {
    for (const size_t list : prices.ListsFor(node)) {
      if (!CanSpare(list, left[list], node)) continue;
      LeaveOut(list, left[list], node);
      return true;
    }
    return false;
  });
}

ExclusionSearch::Verdict ExclusionSearch::CandidateOrder(const State& state, int rounds,
                                                         Prices& prices) {
  for (int round = 0; round < rounds; ++round) {
    if (prices.ProveImpossible()) return Verdict::kImpossible;
    if (Follow(state, prices)) return Verdict::kPossible;
    if (!budget_.Step()) return Verdict::kImpossible;
    prices.Adjust(round, state.family);
  }
  return Verdict::kOpen;
}

bool ExclusionSearch::IsRepeated(size_t list, const State& state) const {
  for (size_t other = 0; other < list; ++other) {
    if (lists_[other] == lists_[list] && state.left[other] == state.left[list]) return true;
  }
  return false;
}

std::vector<uint64_t> ExclusionSearch::KeyOf(const State& state) const {
  std::vector<uint64_t> key;
  kinds_.AppendTo(key, state.family);
  std::vector<std::vector<uint64_t>> of_lists;
  for (size_t list = 0; list < lists_.size(); ++list) {
    std::vector<uint64_t>& of_list = of_lists.emplace_back();
    const auto first = std::ranges::find(lists_, lists_[list]);  // of those that are equal
    of_list.push_back(static_cast<uint64_t>(first - lists_.begin()));
    of_list.push_back((state.left[list].nodes & lists_[list]->shared_nodes()).bits());
    of_list.insert(of_list.end(), state.left[list].spare.begin(), state.left[list].spare.end());
  }
  std::ranges::sort(of_lists);
  for (const auto& of_list : of_lists) key.insert(key.end(), of_list.begin(), of_list.end());
  return key;
}

bool ExclusionSearch::Find(State state, const Prices* before) {
  if (!state.family.Settle() || !budget_.Step()) return false;
  Prices prices(*this, state, before);
  const Verdict verdict = CandidateOrder(state, before == nullptr ? kFirstRounds : kRounds, prices);
  if (verdict != Verdict::kOpen) return verdict == Verdict::kPossible;
  const std::vector<uint64_t> key = KeyOf(state);
  if (impossible_.contains(key)) return false;

  const int dearest = prices.nodes().front();
  const NumaMask node = NumaMask::Of(dearest);
  if (state.family.chosen.Contains(node)) {
    for (const size_t list : prices.ListsFor(dearest)) {
      if (IsRepeated(list, state)) continue;
      State next = state;
      next.family.chosen = next.family.chosen - node;
      LeaveOut(list, next.left[list], dearest);
      if (Find(std::move(next), &prices)) return true;
    }
  } else {
    const auto part = std::ranges::find_if(state.family.parts,
                                           [&](const auto& p) { return p.open.Intersects(node); });
    const auto at = static_cast<size_t>(part - state.family.parts.begin());
    const NumaMask cheaper = node | CheaperThan(dearest, part->open);
    State with = state;
    with.family.parts[at].open = with.family.parts[at].open - cheaper;
    with.family.parts[at].need -= cheaper.Count();
    with.family.chosen = with.family.chosen | cheaper;
    State without = state;
    without.family.parts[at].open = part->open - node - DearerThan(dearest, part->open);
    if (Find(std::move(with), &prices) || Find(std::move(without), &prices)) return true;
  }
  if (!budget_.IsUsedUp()) impossible_.insert(key);
  return false;
}

}  // namespace alignd::topologymanager
