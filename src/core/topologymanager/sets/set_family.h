// Families of sets of NUMA nodes, and the budget of a search among them. Private to the module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"

namespace alignd::topologymanager {

// The number of steps that searches may still make. Searches that share a budget share its steps.
class SearchBudget {
 public:
  explicit SearchBudget(int64_t steps = kMaxSearchSteps) : steps_(steps) {}

  // False once the steps are used up.
  bool Step(int64_t cost = 1) {
    steps_ = steps_ > cost ? steps_ - cost : 0;
    return steps_ > 0;
  }
  bool IsUsedUp() const { return steps_ <= 0; }
  int64_t available() const { return steps_; }
  void Use(int64_t steps) { steps_ -= steps; }

 private:
  int64_t steps_;
};

// The sets that have all nodes of `chosen` and, of each part, exactly `need` of its `open` nodes.
// Parts do not overlap with each other or with `chosen`. A value without memory of its own, because
// searches make many.
struct SetFamily {
  struct Part {
    NumaMask open;
    int need = 0;
  };

  // At most one part for each NUMA node, and one of no node.
  class Parts {
   public:
    Parts() = default;
    Parts(std::initializer_list<Part> parts) {
      for (const Part& part : parts) Add(part);
    }

    void Add(const Part& part) { parts_[size_++] = part; }
    // The last part takes the place of this one.
    void Remove(size_t index) { parts_[index] = parts_[--size_]; }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Part& operator[](size_t index) { return parts_[index]; }
    const Part& operator[](size_t index) const { return parts_[index]; }
    Part* begin() { return parts_.data(); }
    Part* end() { return parts_.data() + size_; }
    const Part* begin() const { return parts_.data(); }
    const Part* end() const { return parts_.data() + size_; }

   private:
    std::array<Part, NumaMask::kMaxNodes + 1> parts_;
    size_t size_ = 0;
  };

  NumaMask chosen;
  Parts parts;

  NumaMask Open() const;  // of all parts
  int Need() const;
  // Whether the set is one of the family.
  bool Contains(NumaMask set) const;
  // The lowest of the sets.
  NumaMask Lowest() const;
  // Of parts that are not empty, the one with the highest open node.
  size_t HighestPart() const;
  // The sets without a node that is open in this part, and those with it. Settle() them.
  SetFamily Without(NumaMask nodes, size_t part) const;
  SetFamily With(NumaMask node, size_t part) const;
  // Chooses the nodes that every set of the family has. Afterwards each part has a real choice.
  // False if the family is empty.
  bool Settle();
};

}  // namespace alignd::topologymanager
