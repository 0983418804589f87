#include "cli/documents.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>
#include <utility>

#include "alignd/base/json_depth.h"
#include "cli/lstopo_file.h"
#include "host/file.h"
#include "host/yaml.h"

namespace alignd::cli {
namespace {

// A list of all pods of a cluster is longer than any file that the daemon reads.
constexpr size_t kMaxManifestFile = size_t{256} << 20;
constexpr char kDocumentStream[] = "-";

Error BadDocuments(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

// The YAML documents of a text, separated by lines of `---`.
std::vector<std::string> DocumentsOf(std::string_view text) {
  std::vector<std::string> documents(1);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (line.starts_with("---") && line.find_first_not_of("- \t\r\n") == std::string_view::npos) {
      documents.emplace_back();
    } else {
      documents.back() += line;
    }
    text.remove_prefix(end);
  }
  return documents;
}

// Whether each line is an object of its own.
bool IsObjectPerLine(std::string_view text) {
  size_t lines = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const size_t last = line.find_last_not_of(" \t\r");
    if (line.front() != '{' || line[last] != '}') return false;
    ++lines;
  }
  return lines > 1;
}

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with('{')) lines.emplace_back(line);
  }
  return lines;
}

// At most as much as of a file: the input can be endless.
Result<std::string> ReadStandardInput() {
  std::string text;
  std::array<char, 64 * 1024> part;
  while (std::cin.read(part.data(), part.size()) || std::cin.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMaxManifestFile) {
      return BadDocuments(
          "standard input: longer than " + std::to_string(kMaxManifestFile) + " bytes",
          "give less at once");
    }
  }
  return text;
}

Result<std::string> ReadText(const std::string& file, FileOrigin origin) {
  if (origin == FileOrigin::kInDirectory) return host::ReadFile(file, kMaxManifestFile);
  return file == kDocumentStream ? ReadStandardInput()
                                 : host::ReadFileOrPipe(file, kMaxManifestFile);
}

}  // namespace

Result<std::vector<std::string>> ReadDocuments(const std::string& file, FileOrigin origin,
                                               int stop) {
  const Result<std::string> text = ReadText(file, origin);
  if (!text.ok()) return text.error();
  std::vector<std::string> documents;
  if (IsXml(*text)) {
    Result<std::string> json = NodeJsonOfLstopo(*text, {.stop = stop});
    if (!json.ok()) return host::ContentError(json.error(), ShownFile(file));
    documents.push_back(*std::move(json));
  } else if (IsObjectPerLine(*text)) {
    documents = LinesOf(*text);
  } else {
    for (const std::string& document : DocumentsOf(*text)) {
      Result<std::string> json = host::YamlToJson(document);
      if (!json.ok()) return host::ContentError(json.error(), ShownFile(file));
      if (*json != "null") documents.push_back(*std::move(json));
    }
  }
  for (const std::string& json : documents) {
    if (JsonDepthOf(json) <= kMaxJsonDepth) continue;
    return BadDocuments(
        ShownFile(file) + ": has more than " + std::to_string(kMaxJsonDepth) + " levels",
        "nest less deeply");
  }
  return documents;
}

std::string ShownFile(const std::string& file) {
  return file == kDocumentStream ? "standard input" : file;
}

Error EmptyFile(const std::string& file) {
  return BadDocuments(ShownFile(file) + ": is empty", "write it again, or remove it");
}

}  // namespace alignd::cli
