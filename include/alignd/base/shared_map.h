// A sorted map whose copies share their entries. The state of a node consists of such maps: it is
// copied for every decision, and each decision changes few entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace alignd {

// A value, used like std::map. A copy costs one reference count. A change costs a copy of the entry
// and some dozens of reference counts. Shared entries are never modified, so different threads may
// read and change different copies. Every change invalidates all iterators, and the references from
// operator[].
template <typename Key, typename Value>
class SharedMap {
  using Entry = std::shared_ptr<const std::pair<const Key, Value>>;
  using Block = std::vector<Entry>;                          // sorted, never empty
  using Blocks = std::vector<std::shared_ptr<const Block>>;  // sorted, never empty

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = std::pair<const Key, Value>;

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = SharedMap::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    Iterator() = default;
    reference operator*() const { return *(*(*blocks_)[block_])[entry_]; }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      if (++entry_ == (*blocks_)[block_]->size()) {
        ++block_;
        entry_ = 0;
      }
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    // Of iterators into the same map.
    friend bool operator==(const Iterator& a, const Iterator& b) {
      return a.block_ == b.block_ && a.entry_ == b.entry_;
    }

   private:
    friend SharedMap;
    Iterator(const Blocks* blocks, size_t block, size_t entry)
        : blocks_(blocks), block_(block), entry_(entry) {}

    const Blocks* blocks_ = nullptr;
    size_t block_ = 0;
    size_t entry_ = 0;
  };
  using iterator = Iterator;
  using const_iterator = Iterator;

  SharedMap() = default;
  SharedMap(std::initializer_list<value_type> entries) {
    for (const value_type& entry : entries) (*this)[entry.first] = entry.second;
  }

  bool empty() const { return blocks_ == nullptr; }
  size_t size() const {
    size_t size = 0;
    for (const auto& block : All()) size += block->size();
    return size;
  }

  Iterator begin() const { return {blocks_.get(), 0, 0}; }
  Iterator end() const { return {blocks_.get(), All().size(), 0}; }

  // The first entry whose key is not less.
  Iterator lower_bound(const Key& key) const {
    if (empty()) return end();
    const auto [block, entry] = PlaceOf(key);
    const bool behind_block = entry == All()[block]->size();
    return {blocks_.get(), behind_block ? block + 1 : block, behind_block ? 0 : entry};
  }
  Iterator find(const Key& key) const {
    const Iterator found = lower_bound(key);
    return found == end() || key < found->first ? end() : found;
  }
  bool contains(const Key& key) const { return find(key) != end(); }
  const Value& at(const Key& key) const {
    const Iterator found = find(key);
    if (found == end()) throw std::out_of_range("SharedMap::at");
    return found->second;
  }

  // The value under the key, to be changed; a new one if there was none. Use it at once: once the
  // map is copied, a change would show in both copies.
  Value& operator[](const Key& key) {
    const auto [block, entry] = empty() ? Place{} : PlaceOf(key);
    Block changed = empty() ? Block{} : *All()[block];
    const bool known = entry < changed.size() && !(key < changed[entry]->first);
    auto fresh = known ? std::make_shared<value_type>(*changed[entry])
                       : std::make_shared<value_type>(key, Value{});
    Value& value = fresh->second;
    if (known) {
      changed[entry] = std::move(fresh);
    } else {
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(entry), std::move(fresh));
    }
    Replace(block, std::move(changed));
    return value;
  }

  // Whether there was such an entry.
  bool erase(const Key& key) {
    if (!contains(key)) return false;
    const auto [block, entry] = PlaceOf(key);
    Block changed = *All()[block];
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(entry));
    Replace(block, std::move(changed));
    return true;
  }

  void clear() { blocks_ = nullptr; }

  // Removes the entries for which `predicate(entry)` is true.
  template <typename Predicate>
  friend void erase_if(SharedMap& map, Predicate predicate) {
    std::vector<Key> keys;
    for (const value_type& entry : map) {
      if (predicate(entry)) keys.push_back(entry.first);
    }
    for (const Key& key : keys) map.erase(key);
  }

  friend bool operator==(const SharedMap& a, const SharedMap& b) {
    if (a.blocks_ == b.blocks_) return true;
    if (a.size() != b.size()) return false;
    return std::equal(a.begin(), a.end(), b.begin(),
                      [](const value_type& x, const value_type& y) { return &x == &y || x == y; });
  }

 private:
  // With 250 entries, a change copies the pointers of one block and of all blocks: about 40.
  static constexpr size_t kMaxInBlock = 32;

  struct Place {
    size_t block = 0;
    size_t entry = 0;
  };

  const Blocks& All() const {
    static const Blocks kNone;
    return blocks_ ? *blocks_ : kNone;
  }

  // The position of the key, or where to insert it. Not for an empty map.
  Place PlaceOf(const Key& key) const {
    const auto starts_behind = [](const Key& k, const auto& block) {
      return k < block->front()->first;
    };
    const auto behind = std::upper_bound(blocks_->begin(), blocks_->end(), key, starts_behind);
    const auto block = behind == blocks_->begin() ? behind : behind - 1;
    const auto is_less = [](const Entry& entry, const Key& k) { return entry->first < k; };
    const auto entry = std::lower_bound((*block)->begin(), (*block)->end(), key, is_less);
    return {static_cast<size_t>(block - blocks_->begin()),
            static_cast<size_t>(entry - (*block)->begin())};
  }

  // Replaces a block by `changed`: split in two if it is too long, removed if it is empty.
  void Replace(size_t block, Block changed) {
    Blocks blocks = All();
    const auto place = blocks.begin() + static_cast<std::ptrdiff_t>(block);
    auto next = place == blocks.end() ? place : blocks.erase(place);
    if (changed.size() > kMaxInBlock) {
      const auto middle = changed.begin() + static_cast<std::ptrdiff_t>(changed.size() / 2);
      next = blocks.insert(next, std::make_shared<const Block>(middle, changed.end()));
      changed.erase(middle, changed.end());
    }
    if (!changed.empty()) blocks.insert(next, std::make_shared<const Block>(std::move(changed)));
    blocks_ = blocks.empty() ? nullptr : std::make_shared<const Blocks>(std::move(blocks));
  }

  std::shared_ptr<const Blocks> blocks_;  // null: empty
};

}  // namespace alignd
