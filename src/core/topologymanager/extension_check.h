// Which sets of common nodes become preferred sets by further nodes. Private to the module.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/member_search.h"
#include "core/topologymanager/sets/relaxation.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// Answers for tens of thousands of sets, so it searches seldom: what a search finds is kept and
// decides about other sets. Such facts are further nodes that were enough, and weights with which
// the best further nodes are not enough (see Relaxation).
class ExtensionCheck {
 public:
  // `further`: nodes of the described sets. `hints` outlive it.
  ExtensionCheck(const DescribedHints& hints, NumaMask further);

  // Whether a set that the hints describe and prefer has all of `kept` and otherwise only further
  // nodes. `kept` has none of these; `missing` is what it lacks of each demand, as a share of what
  // is wanted. False if the budget is used up before a set is found.
  bool Exists(NumaMask kept, const std::vector<double>& missing, SearchBudget& budget);

 private:
  // What is found is kept in a fixed number of entries: those that decided last come first, and the
  // last one gives way to a new one. So an answer takes no longer the more is known.
  template <typename Fact, size_t kMaxFacts>
  class Facts {
   public:
    // Whether a fact decides: `decides(fact)`.
    template <typename Decides>
    bool Any(Decides decides) {
      for (size_t i = 0; i < size_; ++i) {
        if (!decides(facts_[order_[i]])) continue;
        std::rotate(order_.begin(), order_.begin() + i, order_.begin() + i + 1);
        return true;
      }
      return false;
    }
    // The entry for another fact. It may contain an earlier one.
    Fact& Add() {
      if (size_ < kMaxFacts) {
        order_[size_] = static_cast<uint8_t>(size_);
        ++size_;
      }
      std::rotate(order_.begin(), order_.begin() + (size_ - 1), order_.begin() + size_);
      return facts_[order_[0]];
    }

   private:
    std::array<Fact, kMaxFacts> facts_ = {};
    std::array<uint8_t, kMaxFacts> order_ = {};
    size_t size_ = 0;
  };

  // Weights of the demands, and by number of further nodes what these have at best.
  struct Bound {
    std::vector<double> weights;
    std::array<double, NumaMask::kMaxNodes + 1> most;
  };

  // Further nodes, and what they have of each demand at least, whatever they are added to.
  struct Further {
    NumaMask nodes;
    std::vector<double> gains;
    std::vector<double> most;  // the same, at most
  };

  // All further nodes that a set may take which then touches certain groups.
  struct Choice {
    NumaMask nodes;
    std::vector<double> gains;  // of each demand, at most
  };
  // By the groups that a set touches: its choices to touch as many as preferred. Of choices of
  // which one has more of every demand, only that one, if no place is shared.
  struct Choices {
    bool is_known = false;
    std::vector<Choice> list;
  };

  // Whether `count` further nodes make a member of `kept`.
  bool BecomesMember(NumaMask kept, int count, SearchBudget& budget);
  // Whether further nodes make it a member that touches as many groups as preferred.
  bool BecomesTouching(NumaMask kept, SearchBudget& budget);
  const std::vector<Choice>& ChoicesFor(uint32_t touched);
  void AddChoices(uint32_t groups, size_t first, int more, std::vector<Choice>& list) const;
  bool IsKnownToFail(int count);
  bool IsEnough(NumaMask kept, const Further& further) const;
  // With the weights of the relaxation.
  void AddBound();
  void SetBound(Bound& bound) const;
  void SetFurther(NumaMask nodes, Further& further) const;

  const DescribedHints& hints_;
  const SetTable sets_;
  const NumaMask further_;
  MemberSearch search_;
  Relaxation relaxation_;
  std::vector<double> missing_;  // by demand, of the set in question: the share of what is wanted
  Facts<Bound, 48> bounds_;
  std::vector<Facts<Further, 8>> enough_;  // by number of further nodes
  Facts<Further, 8> touching_;             // were enough, and touch other groups
  // By set of groups. Empty if there are too many groups, or if they overlap.
  std::vector<Choices> choices_;
};

}  // namespace alignd::topologymanager
