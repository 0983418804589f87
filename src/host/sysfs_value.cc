#include "host/sysfs_value.h"

#include <bit>
#include <charconv>
#include <system_error>
#include <utility>

#include "host/file.h"

namespace alignd::host {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, int base = 10) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number, base);
  if (code != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// Reads `path` with `parse`, which returns nullopt for an invalid text. `what` is the error's text.
template <typename Value, typename Parse>
Result<std::optional<Value>> ReadAs(const std::filesystem::path& path, std::string_view what,
                                    Parse parse) {
  const Result<std::optional<std::string>> text = ReadText(path);
  if (!text.ok()) return text.error();
  if (!text->has_value()) return std::optional<Value>();
  std::optional<Value> value = parse(std::string_view(**text));
  if (!value) return CorruptFile(path, **text, what);
  return value;
}

std::optional<std::vector<int>> ParseInts(std::string_view text) {
  std::vector<int> numbers;
  for (text = Trim(text); !text.empty(); text = Trim(text)) {
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    const std::optional<int> number = ParseInt(word);
    if (!number || *number < 0) return std::nullopt;
    numbers.push_back(*number);
    text.remove_prefix(word.size());
  }
  return numbers;
}

std::optional<int> ParseMaskCount(std::string_view text) {
  int count = 0;
  while (true) {
    const size_t comma = text.find(',');
    const auto word = ParseNumber<uint64_t>(Trim(text.substr(0, comma)), 16);
    if (!word) return std::nullopt;
    count += std::popcount(*word);
    if (comma == std::string_view::npos) return count;
    text.remove_prefix(comma + 1);
  }
}

std::optional<CpuSet> ParseCpuList(std::string_view text) {
  Result<CpuSet> cpus = CpuSet::Parse(text);
  if (!cpus.ok() || cpus->empty()) return std::nullopt;
  return std::move(cpus).value();
}

}  // namespace

std::optional<int> ParseInt(std::string_view text) { return ParseNumber<int>(text); }
std::optional<uint64_t> ParseUint64(std::string_view text) { return ParseNumber<uint64_t>(text); }

Error CorruptFile(const std::filesystem::path& path, std::string_view datum,
                  std::string_view what) {
  constexpr size_t kShown = 80;  // bytes
  std::string shown(datum.substr(0, kShown));
  if (datum.size() > kShown) shown += "...";
  return {ErrorCode::kCorrupt,
          "read " + path.string() + ": \"" + shown + "\": " + std::string(what),
          "check the path; a real sysfs does not have this content"};
}

Result<std::optional<std::string>> ReadText(const std::filesystem::path& path) {
  const Result<std::string> text = ReadFile(path);
  if (text.ok()) return std::optional(std::string(Trim(*text)));
  if (text.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return text.error();
}

Result<std::optional<int>> ReadInt(const std::filesystem::path& path) {
  return ReadAs<int>(path, "not a number", ParseInt);
}

Result<std::optional<uint64_t>> ReadUint64(const std::filesystem::path& path) {
  return ReadAs<uint64_t>(path, "not a number", ParseUint64);
}

Result<std::optional<CpuSet>> ReadCpuList(const std::filesystem::path& path) {
  return ReadAs<CpuSet>(path, "not a CPU list", ParseCpuList);
}

Result<std::optional<std::vector<int>>> ReadInts(const std::filesystem::path& path) {
  return ReadAs<std::vector<int>>(path, "not a list of numbers", ParseInts);
}

Result<std::optional<int>> ReadMaskCount(const std::filesystem::path& path) {
  return ReadAs<int>(path, "not a mask", ParseMaskCount);
}

}  // namespace alignd::host
