#include "alignd/base/cpu_set.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <optional>

namespace alignd {
namespace {

constexpr int kWordBits = 64;

size_t WordOf(int cpu) { return static_cast<size_t>(cpu) / kWordBits; }
uint64_t BitOf(int cpu) { return uint64_t{1} << (cpu % kWordBits); }

// A whole decimal number in 0..kMaxCpu.
std::optional<int> ParseCpuNumber(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0 || number > CpuSet::kMaxCpu) {
    return std::nullopt;
  }
  return number;
}

Error NotAList(std::string_view text, std::string_view element) {
  return {ErrorCode::kInvalidArgument,
          "\"" + std::string(text) + "\" is not a CPU list: \"" + std::string(element) +
              "\" is neither a CPU number up to " + std::to_string(CpuSet::kMaxCpu) +
              " nor an ascending range of them"};
}

}  // namespace

CpuSet::CpuSet(std::initializer_list<int> cpus) {
  for (const int cpu : cpus) Add(cpu);
}

CpuSet CpuSet::Range(int first, int last) {
  CpuSet set;
  if (last < first) return set;
  set.words_.resize(WordOf(last) + 1);
  // By words: a list from outside can have thousands of long ranges.
  std::fill(set.words_.begin() + static_cast<std::ptrdiff_t>(WordOf(first)), set.words_.end(),
            ~uint64_t{0});
  set.words_[WordOf(first)] &= ~uint64_t{0} << (first % kWordBits);
  set.words_.back() &= ~uint64_t{0} >> (kWordBits - 1 - last % kWordBits);
  return set;
}

Result<CpuSet> CpuSet::Parse(std::string_view text) {
  CpuSet set;
  if (text.empty()) return set;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view element = text.substr(begin, comma - begin);
    const size_t dash = element.find('-');
    const std::optional<int> first = ParseCpuNumber(element.substr(0, dash));
    const std::optional<int> last =
        dash == std::string_view::npos ? first : ParseCpuNumber(element.substr(dash + 1));
    if (!first || !last || *last < *first) return NotAList(text, element);
    set |= Range(*first, *last);
    begin = comma + 1;
  }
  return set;
}

std::string CpuSet::ToString() const {
  std::string text;
  for (int first = First(); first >= 0;) {
    int last = first;
    while (Contains(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
    first = NextFrom(last + 1);
  }
  return text;
}

int CpuSet::Count() const {
  int count = 0;
  for (const uint64_t word : words_) count += std::popcount(word);
  return count;
}

bool CpuSet::Contains(int cpu) const {
  return cpu >= 0 && WordOf(cpu) < words_.size() && (words_[WordOf(cpu)] & BitOf(cpu)) != 0;
}

bool CpuSet::Contains(const CpuSet& other) const { return CountCommon(other) == other.Count(); }

bool CpuSet::Intersects(const CpuSet& other) const {
  const size_t common = std::min(words_.size(), other.words_.size());
  for (size_t i = 0; i < common; ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

int CpuSet::CountCommon(const CpuSet& other) const {
  const size_t common = std::min(words_.size(), other.words_.size());
  int count = 0;
  for (size_t i = 0; i < common; ++i) count += std::popcount(words_[i] & other.words_[i]);
  return count;
}

CpuSet CpuSet::Lowest(int count) const {
  CpuSet lowest;
  for (const int cpu : *this) {
    if (count-- <= 0) break;
    lowest.Add(cpu);
  }
  return lowest;
}

std::vector<int> CpuSet::ToVector() const { return {begin(), end()}; }

void CpuSet::Add(int cpu) {
  if (WordOf(cpu) >= words_.size()) words_.resize(WordOf(cpu) + 1);
  words_[WordOf(cpu)] |= BitOf(cpu);
}

void CpuSet::Remove(int cpu) {
  if (!Contains(cpu)) return;
  words_[WordOf(cpu)] &= ~BitOf(cpu);
  DropTrailingZeros();
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  DropTrailingZeros();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  const size_t common = std::min(words_.size(), other.words_.size());
  for (size_t i = 0; i < common; ++i) words_[i] &= ~other.words_[i];
  DropTrailingZeros();
  return *this;
}

int CpuSet::NextFrom(int cpu) const {
  for (size_t i = WordOf(cpu); i < words_.size(); ++i) {
    uint64_t word = words_[i];
    if (i == WordOf(cpu)) word &= ~uint64_t{0} << (cpu % kWordBits);
    if (word != 0) return static_cast<int>(i) * kWordBits + std::countr_zero(word);
  }
  return -1;
}

void CpuSet::DropTrailingZeros() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace alignd
