// The kubelet's checksum: FNV-1a over the text that a Go pretty-printer writes for the typed
// object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {

// 32 bits. Source: Go hash/fnv, New32a.
uint32_t Fnv1a32(std::string_view bytes);

// Prints a value in the form that the kubelet hashes.
// Source: kubernetes pkg/util/hash, DeepHashObject; k8s.io/utils/dump, ForHash.
class GoPrinter {
 public:
  // `type` is the struct's Go type with its package: `state.CPUManagerCheckpoint`.
  template <GoStruct T>
  static std::string Struct(std::string_view type, const T& value) {
    GoPrinter printer;
    printer.Print(type, value);
    return std::move(printer.out_);
  }

  // The same, of a pointer to it.
  template <GoStruct T>
  static std::string PointerToStruct(std::string_view type, const T& value) {
    GoPrinter printer;
    printer.out_ = "(*" + std::string(type) + ")";
    printer.PrintUntyped(value);
    return std::move(printer.out_);
  }

 private:
  // In a typed position: the type is printed before the value.
  template <typename T>
  void Print(std::string_view type, const T& value) {
    if (!std::exchange(hide_next_type_, false)) out_ += "(" + std::string(type) + ")";
    Content(value);
  }

  // In an untyped position: elements, keys and values of maps.
  template <typename T>
  void PrintUntyped(const T& value) {
    hide_next_type_ = false;
    Content(value);
  }

  // Go's printer does not clear its flag "hide the next type" after a null pointer. The next value
  // is then printed without a type, even in a typed position.
  template <GoStruct T>
  void PrintUntyped(const GoPointer<T>& pointer) {
    hide_next_type_ = !pointer;
    out_ += pointer ? "<*>" : "<nil>";
    if (pointer) Content(*pointer);
  }

  void Content(const std::string& text) { out_ += text; }
  void Content(int64_t number) { out_ += std::to_string(number); }
  void Content(uint64_t number) { out_ += std::to_string(number); }
  void Content(const GoBytes& value);
  void Content(const CpuSet& cpus);  // as Go's cpuset.CPUSet, a struct with a map

  template <typename T>
  void Content(const GoSlice<T>& list) {
    if (!list) return PrintNull();
    out_ += '[';
    bool first = true;
    for (const T& element : *list) {
      if (!std::exchange(first, false)) out_ += ' ';
      PrintUntyped(element);
    }
    out_ += ']';
  }

  template <typename K, typename V>
  void Content(const GoMap<K, V>& map) {
    if (!map) return PrintNull();
    out_ += "map[";
    bool first = true;
    for (const auto& [key, value] : *map) {
      if (!std::exchange(first, false)) out_ += ' ';
      PrintUntyped(key);
      out_ += ':';
      PrintUntyped(value);
    }
    out_ += ']';
  }

  template <GoStruct T>
  void Content(const T& value) {
    out_ += '{';
    bool first = true;
    T::Fields(value, [this, &first](const GoField& field, const auto& member) {
      if (!std::exchange(first, false)) out_ += ' ';
      out_ += std::string(field.name) + ':';
      Print(field.type, member);
    });
    out_ += '}';
  }

  void PrintNull() { out_ += "<nil>"; }

  std::string out_;
  bool hide_next_type_ = false;
};

}  // namespace alignd::checkpoint
