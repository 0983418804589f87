#include "core/topologymanager/extension_check.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "alignd/base/saturating_sum.h"

namespace alignd::topologymanager {

ExtensionCheck::ExtensionCheck(const DescribedHints& hints, NumaMask further)
    : hints_(hints),
      sets_(hints.sets),
      further_(further),
      search_(DemandsOf(sets_)),
      relaxation_(DemandsOf(sets_)),
      missing_(sets_.demands.size()),
      enough_(static_cast<size_t>(further.Count()) + 1) {
  // Each demand alone.
  for (size_t demand = 0; demand < sets_.demands.size(); ++demand) {
    Bound& bound = bounds_.Add();
    bound.weights.assign(sets_.demands.size(), 0);
    bound.weights[demand] = 1;
    SetBound(bound);
  }
  constexpr size_t kMaxGroups = 10;
  NumaMask grouped;
  bool overlap = false;
  for (const NumaMask group : hints.groups) {
    overlap = overlap || group.Intersects(grouped);
    grouped = grouped | group;
  }
  if (!overlap && !hints.groups.empty() && hints.groups.size() <= kMaxGroups) {
    choices_.resize(size_t{1} << hints.groups.size());
  }
}

bool ExtensionCheck::Exists(NumaMask kept, const std::vector<double>& missing,
                            SearchBudget& budget) {
  if (!sets_.within.Contains(kept)) return false;
  missing_ = missing;
  const int count = hints_.preferred_nodes - kept.Count();
  if (count >= 0 && count <= further_.Count() && BecomesMember(kept, count, budget)) return true;
  // With all further nodes, as an upper bound.
  return !hints_.groups.empty() && !IsKnownToFail(further_.Count()) &&
         BecomesTouching(kept, budget);
}

bool ExtensionCheck::BecomesTouching(NumaMask kept, SearchBudget& budget) {
  const int touched = Touched(hints_.groups, kept);
  if (touched > hints_.preferred_groups) return false;
  if (!choices_.empty()) {
    uint32_t groups = 0;
    for (size_t i = 0; i < hints_.groups.size(); ++i) {
      if (hints_.groups[i].Intersects(kept)) groups |= uint32_t{1} << i;
    }
    return std::ranges::any_of(ChoicesFor(groups), [&](const Choice& choice) {
      for (size_t i = 0; i < missing_.size(); ++i) {
        if (missing_[i] > choice.gains[i] + kRounding) return false;
      }
      return sets_.Contains(kept | choice.nodes);
    });
  }
  if (touched == hints_.preferred_groups) {
    NumaMask usable = further_;
    for (const NumaMask group : hints_.groups) {
      if (!group.Intersects(kept)) usable = usable - group;
    }
    return sets_.Contains(kept | usable);
  }
  const bool known = touching_.Any([&](const Further& further) {
    return Touched(hints_.groups, kept | further.nodes) == hints_.preferred_groups &&
           IsEnough(kept, further);
  });
  if (known) return true;
  const auto found = MemberTouching(hints_, sets_, kept, kept | further_, budget);
  if (found) SetFurther(*found - kept, touching_.Add());
  return found.has_value();
}

const std::vector<ExtensionCheck::Choice>& ExtensionCheck::ChoicesFor(uint32_t touched) {
  Choices& choices = choices_[touched];
  if (!choices.is_known) {
    choices.is_known = true;
    AddChoices(touched, 0, hints_.preferred_groups - std::popcount(touched), choices.list);
  }
  return choices.list;
}

// Adds `more` of the groups from `first` on to `groups`, in every way.
void ExtensionCheck::AddChoices(uint32_t groups, size_t first, int more,
                                std::vector<Choice>& list) const {
  if (more > 0) {
    for (size_t i = first; i < hints_.groups.size(); ++i) {
      const uint32_t group = uint32_t{1} << i;
      if ((groups & group) != 0 || !hints_.groups[i].Intersects(further_)) continue;
      AddChoices(groups | group, i + 1, more - 1, list);
    }
    return;
  }
  Choice choice{further_, {}};
  for (size_t i = 0; i < hints_.groups.size(); ++i) {
    if ((groups >> i & 1) == 0) choice.nodes = choice.nodes - hints_.groups[i];
  }
  for (const DemandTable& demand : sets_.demands) {
    double gain = 0;
    for (const int node : choice.nodes) gain += static_cast<double>(demand.GainOf(node, {}));
    choice.gains.push_back(gain / static_cast<double>(demand.wanted()));
  }
  if (sets_.shared_nodes().empty()) {
    const auto has_more = [](const Choice& a, const Choice& b) {
      return std::ranges::equal(a.gains, b.gains, std::greater_equal<>());
    };
    if (std::ranges::any_of(list, [&](const Choice& other) { return has_more(other, choice); })) {
      return;
    }
    std::erase_if(list, [&](const Choice& other) { return has_more(choice, other); });
  }
  list.push_back(std::move(choice));
}

bool ExtensionCheck::BecomesMember(NumaMask kept, int count, SearchBudget& budget) {
  if (count == 0) {
    return !kept.empty() && std::ranges::all_of(missing_, [](double part) { return part <= 0; });
  }
  auto& enough = enough_[static_cast<size_t>(count)];
  if (enough.Any([&](const Further& further) { return IsEnough(kept, further); })) return true;
  if (IsKnownToFail(count)) return false;
  SetFamily family{kept, {{further_, count}}};
  if (family.Settle() && !family.parts.empty()) {
    relaxation_.Start(family);
    constexpr int kEvaluations = 24;
    for (int i = 0; i < kEvaluations && !budget.IsUsedUp(); ++i) {
      if (i > 0) relaxation_.Improve();
      (void)budget.Step();
      if (!relaxation_.Evaluate()) {
        AddBound();
        return false;
      }
      if (sets_.Contains(relaxation_.best())) {
        SetFurther(relaxation_.best() - kept, enough.Add());
        return true;
      }
    }
  }
  const std::optional<NumaMask> found = search_.Any(family, budget);
  if (found) SetFurther(*found - kept, enough.Add());
  return found.has_value();
}

bool ExtensionCheck::IsKnownToFail(int count) {
  return bounds_.Any([&](const Bound& bound) {
    double missing = 0;
    for (size_t i = 0; i < missing_.size(); ++i) missing += bound.weights[i] * missing_[i];
    return bound.most[static_cast<size_t>(count)] < missing - kRounding;
  });
}

bool ExtensionCheck::IsEnough(NumaMask kept, const Further& further) const {
  bool enough = true;
  for (size_t i = 0; i < missing_.size(); ++i) {
    if (missing_[i] > further.most[i] + kRounding) return false;
    enough = enough && (missing_[i] <= 0 || missing_[i] <= further.gains[i] - kRounding);
  }
  return enough || sets_.Contains(kept | further.nodes);
}

void ExtensionCheck::SetFurther(NumaMask nodes, Further& further) const {
  further.nodes = nodes;
  further.gains.resize(sets_.demands.size());
  further.most.resize(sets_.demands.size());
  for (size_t i = 0; i < sets_.demands.size(); ++i) {
    const DemandTable& demand = sets_.demands[i];
    const auto wanted = static_cast<double>(demand.wanted());
    uint64_t amount = 0;
    double most = 0;
    for (const int node : nodes) {
      amount = SaturatingSum(amount, demand.OnNode(node));
      most += static_cast<double>(demand.GainOf(node, {}));
    }
    further.gains[i] = static_cast<double>(amount) / wanted;
    further.most[i] = most / wanted;
  }
}

void ExtensionCheck::AddBound() {
  Bound& bound = bounds_.Add();
  relaxation_.CopyWeights(bound.weights);
  SetBound(bound);
}

void ExtensionCheck::SetBound(Bound& bound) const {
  std::array<double, NumaMask::kMaxNodes> gains;
  auto* end = gains.begin();
  for (const int node : further_) {
    double gain = 0;
    for (size_t i = 0; i < bound.weights.size(); ++i) {
      const DemandTable& demand = sets_.demands[i];
      gain += bound.weights[i] * static_cast<double>(demand.GainOf(node, {})) /
              static_cast<double>(demand.wanted());
    }
    *end++ = gain;
  }
  std::sort(gains.begin(), end, std::greater<>());
  double* most = bound.most.data();
  *most = 0;
  for (const auto* gain = gains.begin(); gain != end; ++gain, ++most) most[1] = most[0] + *gain;
}

}  // namespace alignd::topologymanager
