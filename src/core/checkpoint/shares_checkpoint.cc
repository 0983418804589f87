#include "alignd/checkpoint/shares_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {
namespace {

using cpumanager::NodeShare;

constexpr auto kKinds = std::to_array<std::pair<ContainerKind, std::string_view>>({
    {ContainerKind::kApp, "app"},
    {ContainerKind::kInit, "init"},
    {ContainerKind::kSidecar, "sidecar"},
});

// More than any machine has.
constexpr int64_t kMaxMillis = int64_t{1} << 40;

struct ShareDocument {
  int64_t numa_node = -1;
  int64_t millis = -1;  // thousandths of a CPU
  std::string kind;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"numaNode", "NUMANode", "int"}, self.numa_node);
    visit({"cpuMillis", "CPUMillis", "int"}, self.millis);
    visit({"kind", "Kind", "string"}, self.kind);
  }
};

struct SharesDocument {
  // pod UID -> container -> what it requests, and where
  GoMap<std::string, GoMap<std::string, ShareDocument>> entries = {{}};
  GoSlice<uint64_t> cpu_files;  // SharesCheckpoint::cpu_files
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"entries", "Entries", "map[string]map[string]Share"}, self.entries);
    visit({"cpuFiles", "CPUFiles", "[]uint64", /*omit_empty=*/true}, self.cpu_files);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Over the text of the shares, so that it depends only on them. A version of alignd that does not
// know `cpuFiles` reads the file, too. If these are damaged, the file counts as out of date.
uint64_t ChecksumOf(SharesDocument document) {
  document.checksum = 0;
  document.cpu_files.reset();
  return Fnv1a32(GoJsonWriter::ToText(document));
}

Error CorruptShares(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

Result<NodeShare> ToShare(const ContainerKey& key, const ShareDocument& document) {
  const std::string where = "pod \"" + key.pod_uid + "\" container \"" + key.container + "\": ";
  if (key.pod_uid.empty() || key.container.empty()) {
    return CorruptShares(where + "a name is missing");
  }
  if (document.numa_node < 0 || document.numa_node > INT32_MAX) {
    return CorruptShares(where + "no NUMA node");
  }
  if (document.millis < 0 || document.millis > kMaxMillis) {
    return CorruptShares(where + "no request");
  }
  const auto kind =
      std::ranges::find(kKinds, document.kind, &std::pair<ContainerKind, std::string_view>::second);
  if (kind == kKinds.end()) {
    return CorruptShares(where + "kind \"" + document.kind + "\" is not known");
  }
  return NodeShare{static_cast<int>(document.numa_node), document.millis, kind->first};
}

}  // namespace

bool SharesCheckpoint::IsOfAnotherCpuFile(std::string_view cpu_text) const {
  return !cpu_files.empty() &&
         std::ranges::find(cpu_files, CpuFileChecksum(cpu_text)) == cpu_files.end();
}

uint64_t CpuFileChecksum(std::string_view text) { return Fnv1a32(text); }

std::string FormatSharesCheckpoint(const Shares& shares, const std::vector<uint64_t>& cpu_files) {
  SharesDocument document;
  if (!cpu_files.empty()) document.cpu_files = cpu_files;
  for (const auto& [key, share] : shares) {
    auto& containers = (*document.entries)[key.pod_uid];
    if (!containers) containers.emplace();
    const auto kind =
        std::ranges::find(kKinds, share.kind, &std::pair<ContainerKind, std::string_view>::first);
    (*containers)[key.container] = {share.numa_id, share.millis, std::string(kind->second)};
  }
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Result<SharesCheckpoint> ParseSharesCheckpoint(std::string_view text) {
  SharesDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return read.error();
  }
  const uint64_t computed = ChecksumOf(document);
  if (computed != document.checksum) {
    return CorruptShares("checkpoint is corrupted: its checksum is " +
                         std::to_string(document.checksum) + ", its content has " +
                         std::to_string(computed));
  }
  SharesCheckpoint read;
  if (document.cpu_files) read.cpu_files = *document.cpu_files;
  if (!document.entries) return CorruptShares("there are no entries");
  for (const auto& [pod_uid, containers] : *document.entries) {
    if (!containers || containers->empty()) {
      return CorruptShares("pod \"" + pod_uid + "\": no container");
    }
    for (const auto& [container, entry] : *containers) {
      const ContainerKey key{pod_uid, container};
      const Result<NodeShare> share = ToShare(key, entry);
      if (!share.ok()) return share.error();
      read.shares[key] = *share;
    }
  }
  return read;
}

}  // namespace alignd::checkpoint
