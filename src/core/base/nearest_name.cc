#include "core/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace alignd {
namespace {

// Longer ones are not compared.
constexpr size_t kMaxName = 100;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The number of characters to add, remove or replace, regardless of case.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (Lower(a[i]) == Lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// The only one of the names that begins so; empty if there is none, or several.
std::string_view OnlyWithBeginning(std::string_view beginning,
                                   std::span<const std::string_view> names) {
  constexpr size_t kMinBeginning = 3;
  std::string_view only;
  if (beginning.size() < kMinBeginning) return only;
  for (const std::string_view name : names) {
    const std::string_view of_name = name.substr(0, beginning.size());
    if (!std::ranges::equal(of_name, beginning, {}, Lower, Lower)) continue;
    if (!only.empty()) return {};
    only = name;
  }
  return only;
}

}  // namespace

bool IsMisspelling(std::string_view name, std::string_view of) {
  constexpr size_t kMaxTypos = 2;
  const auto [shorter, longer] = std::minmax({name.size(), of.size()});
  if (longer - shorter > kMaxTypos) return false;  // the most of all names
  return name != of && name.size() <= kMaxName && Distance(name, of) <= kMaxTypos;
}

std::string_view NearestName(std::string_view name, std::span<const std::string_view> names) {
  std::string_view nearest;
  // A larger distance means different words, as does half of a short one.
  if (name.size() > kMaxName) return nearest;
  size_t least = 1 + std::max<size_t>(2, name.size() / 4);
  for (const std::string_view candidate : names) {
    const size_t distance = Distance(name, candidate);
    if (distance >= least || 2 * distance > candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest.empty() ? OnlyWithBeginning(name, names) : nearest;
}

}  // namespace alignd
