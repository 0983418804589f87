// The header fields of one block.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::proxy {

// In the order of their arrival; pseudo-headers (":path") first. A value. All names and values are
// in one buffer, because every call has about a dozen of them.
class Headers {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };
  // A change of the headers makes it invalid.
  class Iterator {
   public:
    Iterator(const Headers& of, size_t index) : of_(&of), index_(index) {}
    Field operator*() const { return (*of_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator==(const Iterator& other) const = default;

   private:
    const Headers* of_;
    size_t index_;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields);

  void Add(std::string_view name, std::string_view value);
  void clear();

  bool empty() const { return ends_.empty(); }
  size_t size() const { return ends_.size(); }  // fields
  size_t bytes() const { return text_.size(); }
  Field operator[](size_t index) const;
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  // The value of the first field of this name; empty if there is none.
  std::string_view Find(std::string_view name) const;

 private:
  // In text_.
  struct Ends {
    size_t name;
    size_t value;
  };

  std::string text_;
  std::vector<Ends> ends_;
};

}  // namespace alignd::proxy
