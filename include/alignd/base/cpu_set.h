// A set of logical CPU numbers, and its Linux list form (`0-3,8`).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd {

// A value: copying costs one word per 64 CPU numbers. CPU numbers are 0 to kMaxCpu.
class CpuSet {
 public:
  // Eight times the largest NR_CPUS of any Linux architecture. Limits the memory that a list from
  // outside can make alignd allocate.
  static constexpr int kMaxCpu = 65535;

  // Walks the CPU numbers in ascending order.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = const int*;
    using reference = int;

    Iterator() = default;
    Iterator(const CpuSet* set, int cpu) : set_(set), cpu_(cpu) {}
    int operator*() const { return cpu_; }
    Iterator& operator++() {
      cpu_ = set_->NextFrom(cpu_ + 1);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const CpuSet* set_ = nullptr;
    int cpu_ = -1;
  };

  CpuSet() = default;
  CpuSet(std::initializer_list<int> cpus);

  // The CPUs `first` to `last`, both included; empty if last < first.
  static CpuSet Range(int first, int last);

  // Reads the list form as the kubelet does: numbers and `a-b` with a <= b, in any order,
  // overlapping or not; no spaces, no empty element. The empty text is the empty set.
  // Errors: kInvalidArgument, naming the element.
  // Source: k8s.io/utils/cpuset, Parse.
  static Result<CpuSet> Parse(std::string_view text);

  // The list form: ascending, a run of two or more as `a-b`. Empty for the empty set.
  std::string ToString() const;

  bool empty() const { return words_.empty(); }
  int Count() const;
  bool Contains(int cpu) const;
  bool Contains(const CpuSet& other) const;
  bool Intersects(const CpuSet& other) const;
  // |*this & other| without building the intersection.
  int CountCommon(const CpuSet& other) const;
  // The lowest CPU number, or -1.
  int First() const { return NextFrom(0); }
  // The `count` lowest CPU numbers (all of them if there are fewer).
  CpuSet Lowest(int count) const;
  std::vector<int> ToVector() const;

  void Add(int cpu);
  void Remove(int cpu);

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  friend auto operator<=>(const CpuSet&, const CpuSet&) = default;

  Iterator begin() const { return {this, First()}; }
  Iterator end() const { return {this, -1}; }

 private:
  // The lowest member >= cpu, or -1.
  int NextFrom(int cpu) const;
  void DropTrailingZeros();

  std::vector<uint64_t> words_;  // no trailing zero word, so equal sets are equal vectors
};

}  // namespace alignd
