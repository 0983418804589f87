#include "alignd/checkpoint/originals_checkpoint.h"

#include <cstdint>
#include <map>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {
namespace {

struct OriginalsDocument {
  // pod UID -> container -> CPU list
  GoMap<std::string, GoMap<std::string, std::string>> entries = {{}};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"entries", "Entries", "map[string]map[string]string"}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Over the text without its checksum, so that it depends only on the file's content.
uint64_t ChecksumOf(OriginalsDocument document) {
  document.checksum = 0;
  return Fnv1a32(GoJsonWriter::ToText(document));
}

Error CorruptOriginals(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

Result<CpuSet> ToOriginal(const std::string& pod_uid, const std::string& container,
                          const std::string& list) {
  const std::string where = "pod \"" + pod_uid + "\" container \"" + container + "\": ";
  if (pod_uid.empty() || container.empty()) return CorruptOriginals(where + "a name is missing");
  Result<CpuSet> cpus = CpuSet::Parse(list);
  if (!cpus.ok()) return CorruptOriginals(where + cpus.error().message);
  return cpus;
}

}  // namespace

std::string FormatOriginalsCheckpoint(const Originals& originals) {
  OriginalsDocument document;
  for (const auto& [pod_uid, containers] : originals) {
    auto& entry = (*document.entries)[pod_uid].emplace();
    for (const auto& [container, cpus] : containers) entry[container] = cpus.ToString();
  }
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Result<Originals> ParseOriginalsCheckpoint(std::string_view text) {
  OriginalsDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return read.error();
  }
  const uint64_t computed = ChecksumOf(document);
  if (computed != document.checksum) {
    return CorruptOriginals("checkpoint is corrupted: its checksum is " +
                            std::to_string(document.checksum) + ", its content has " +
                            std::to_string(computed));
  }
  Originals originals;
  if (!document.entries) return originals;
  for (const auto& [pod_uid, containers] : *document.entries) {
    if (!containers || containers->empty()) {
      return CorruptOriginals("pod \"" + pod_uid + "\": no container");
    }
    for (const auto& [container, list] : *containers) {
      Result<CpuSet> cpus = ToOriginal(pod_uid, container, list);
      if (!cpus.ok()) return cpus.error();
      originals[pod_uid][container] = *std::move(cpus);
    }
  }
  return originals;
}

}  // namespace alignd::checkpoint
