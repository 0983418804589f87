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
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"entries", "Entries", "map[string]map[string]Share"}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Over the text without its checksum, so that it depends only on the file's content.
uint64_t ChecksumOf(SharesDocument document) {
  document.checksum = 0;
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

std::string FormatSharesCheckpoint(const Shares& shares) {
  SharesDocument document;
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

Result<Shares> ParseSharesCheckpoint(std::string_view text) {
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
  Shares shares;
  if (!document.entries) return CorruptShares("there are no entries");
  for (const auto& [pod_uid, containers] : *document.entries) {
    if (!containers || containers->empty()) {
      return CorruptShares("pod \"" + pod_uid + "\": no container");
    }
    for (const auto& [container, entry] : *containers) {
      const ContainerKey key{pod_uid, container};
      const Result<NodeShare> share = ToShare(key, entry);
      if (!share.ok()) return share.error();
      shares[key] = *share;
    }
  }
  return shares;
}

}  // namespace alignd::checkpoint
