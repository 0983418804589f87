// A set of NUMA nodes by position in ascending id order, with the kubelet's "narrower than" order.
// Ids have gaps and may pass 63 (a Grace Hopper node has 0, 8 and 250 to 255); positions do not.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>
#include <string>

namespace alignd {

// A value of up to 64 positions.
class NumaMask {
 public:
  static constexpr int kMaxNodes = 64;

  // Walks the positions in ascending order.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = const int*;
    using reference = int;

    constexpr Iterator() = default;
    constexpr explicit Iterator(uint64_t rest) : rest_(rest) {}
    constexpr int operator*() const { return std::countr_zero(rest_); }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    uint64_t rest_ = 0;
  };

  constexpr NumaMask() = default;
  static constexpr NumaMask FromBits(uint64_t bits) {
    NumaMask mask;
    mask.bits_ = bits;
    return mask;
  }
  static constexpr NumaMask Of(int position) { return FromBits(uint64_t{1} << position); }
  // The first `count` positions, 0 <= count <= 64.
  static constexpr NumaMask FirstNodes(int count) {
    return FromBits(count >= kMaxNodes ? ~uint64_t{0} : (uint64_t{1} << count) - 1);
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int Count() const { return std::popcount(bits_); }
  constexpr bool Contains(int position) const { return (bits_ >> position & 1) != 0; }
  constexpr bool Contains(NumaMask other) const { return (other.bits_ & ~bits_) == 0; }
  constexpr bool Intersects(NumaMask other) const { return (bits_ & other.bits_) != 0; }
  // The highest position of a mask that is not empty.
  constexpr int Highest() const { return kMaxNodes - 1 - std::countl_zero(bits_); }
  constexpr void Add(int position) { bits_ |= uint64_t{1} << position; }

  // Fewer nodes, or as many nodes and a smaller mask value.
  // Source: kubelet pkg/kubelet/cm/topologymanager/bitmask/bitmask.go, IsNarrowerThan.
  constexpr bool IsNarrowerThan(NumaMask other) const {
    return Count() != other.Count() ? Count() < other.Count() : bits_ < other.bits_;
  }

  // Positions as a list: `{0,2}`. For messages of modules that do not know the node ids.
  std::string ToString() const;

  friend constexpr NumaMask operator|(NumaMask a, NumaMask b) {
    return FromBits(a.bits_ | b.bits_);
  }
  friend constexpr NumaMask operator&(NumaMask a, NumaMask b) {
    return FromBits(a.bits_ & b.bits_);
  }
  friend constexpr NumaMask operator-(NumaMask a, NumaMask b) {
    return FromBits(a.bits_ & ~b.bits_);
  }
  friend constexpr bool operator==(NumaMask, NumaMask) = default;
  friend constexpr auto operator<=>(NumaMask, NumaMask) = default;

  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(); }

 private:
  uint64_t bits_ = 0;
};

}  // namespace alignd
