#include "alignd/checkpoint/documents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"

namespace alignd::checkpoint {
namespace {

// The types under which 1.36 hashes when it writes. It names two of them otherwise inside, and
// accepts those names too when it reads.
constexpr std::string_view kCpuType = "state.CPUManagerCheckpoint";
constexpr std::string_view kCpuOwnType = "state.CPUManagerCheckpointV2";
constexpr std::string_view kMemoryType = "state.MemoryManagerCheckpoint";
constexpr std::string_view kMemoryOwnType = "state.MemoryManagerCheckpointV1";

// What the same state's text has before its checksum if the feature gate PodLevelResourceManagers
// is on and no pod has such resources.
constexpr std::string_view kNoCpuPodEntries = " PodEntries:(state.PodCPUAssignments)map[]";
constexpr std::string_view kNoMemoryPodEntries = " PodEntries:(state.PodMemoryAssignments)map[]";

// An entry as kubelets before 1.20 wrote it: ids without NUMA nodes. 1.36 does not read it; we
// read it only to say so.
struct OldDeviceEntry {
  GoSlice<std::string> device_ids;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"DeviceIDs", "DeviceIDs", "[]string"}, self.device_ids);
  }
};

struct OldDeviceData {
  GoSlice<OldDeviceEntry> pod_device_entries;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"PodDeviceEntries", "PodDeviceEntries", "[]checkpoint.PodDevicesEntryV1"},
          self.pod_device_entries);
  }
};

struct OldDeviceDocument {
  OldDeviceData data;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"Data", "Data", "checkpoint.checkpointDataV1"}, self.data);
  }
};

template <typename Document>
std::string HashedText(std::string_view type, Document document) {
  document.checksum = 0;
  return GoPrinter::PointerToStruct(type, document);
}

template <typename Document>
std::string FinishedText(Document document) {
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Error WithRemedy(CheckpointKind kind, const Error& error, std::string_view explanation = "") {
  std::string remedy(explanation);
  if (!remedy.empty()) remedy += "; ";
  return {error.code, error.message, remedy + std::string(RemedyOf(kind))};
}

// The message is the kubelet's; the numbers stand with the remedy.
Error Mismatch(CheckpointKind kind, uint64_t stored, uint32_t computed,
               std::string_view explanation = "") {
  std::string numbers =
      "its checksum is " + std::to_string(stored) + ", its content has " + std::to_string(computed);
  if (!explanation.empty()) numbers += " (" + std::string(explanation) + ")";
  return WithRemedy(kind, {ErrorCode::kCorrupt, "checkpoint is corrupted"}, numbers);
}

// What may be the reason for a checksum that does not match; empty if there is no telling.
// `hashed_text` has a checksum field at its end.
std::string_view ExplainMismatch(std::string_view text, uint64_t stored, std::string hashed_text,
                                 std::string_view no_pod_entries) {
  hashed_text.insert(hashed_text.rfind(" Checksum:"), no_pod_entries);
  const Result<std::vector<std::string>> keys = GoJsonReader::TopLevelKeys(text);
  const bool has_pod_entries = keys.ok() && std::ranges::any_of(*keys, [](const std::string& key) {
                                 return MatchesField(key, "podEntries");
                               });
  if (!has_pod_entries && Fnv1a32(hashed_text) != stored) return "";
  return "written with the feature gate PodLevelResourceManagers, which is off by default and not "
         "supported here";
}

// The checksum of the document under one of the two names; the matching one if one matches.
template <typename Document>
uint32_t EitherChecksum(const Document& document, std::string_view own_type) {
  const uint32_t computed = ChecksumOf(document);
  if (computed == document.checksum) return computed;
  const uint32_t own = Fnv1a32(HashedText(own_type, document));
  return own == document.checksum ? own : computed;
}

// Whether a CPU or memory file with that checksum is accepted.
bool Matches(uint64_t stored, uint32_t computed) { return stored == 0 || stored == computed; }

}  // namespace

std::string_view FileNameOf(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return "cpu_manager_state";
    case CheckpointKind::kMemory:
      return "memory_manager_state";
    case CheckpointKind::kDevice:
      break;
  }
  return "kubelet_internal_checkpoint";
}

std::string_view RemedyOf(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return "please drain this node and delete the CPU manager checkpoint file before restarting";
    case CheckpointKind::kMemory:
      return "please drain this node and delete the memory manager checkpoint file before "
             "restarting";
    case CheckpointKind::kDevice:
      break;
  }
  return "please drain this node and delete the device manager checkpoint file before restarting; "
         "without it all devices count as free";
}

uint32_t ChecksumOf(const CpuDocument& document) { return Fnv1a32(HashedText(kCpuType, document)); }

uint32_t ChecksumOf(const CpuDocumentV1& document) {
  return Fnv1a32(HashedText(kCpuType, document));
}

uint32_t ChecksumOf(const MemoryDocument& document) {
  return Fnv1a32(HashedText(kMemoryType, document));
}

uint32_t ChecksumOf(const DeviceDocument& document) {
  return Fnv1a32(GoPrinter::Struct("checkpoint.checkpointData", document.data));
}

std::string ToText(CpuDocument document) { return FinishedText(std::move(document)); }
std::string ToText(MemoryDocument document) { return FinishedText(std::move(document)); }
std::string ToText(DeviceDocument document) { return FinishedText(std::move(document)); }

Result<std::variant<Verified<CpuDocument>, Verified<CpuDocumentV1>>> ReadCpuDocument(
    std::string_view text) {
  using Either = std::variant<Verified<CpuDocument>, Verified<CpuDocumentV1>>;
  CpuDocument document;
  const Result<Done> read = GoJsonReader::Read(text, document);
  const uint64_t stored = document.checksum;
  const uint32_t computed = EitherChecksum(document, kCpuOwnType);
  if (read.ok() && Matches(stored, computed)) {
    return Either(Verified<CpuDocument>{std::move(document), stored, computed});
  }
  CpuDocumentV1 old;
  const Result<Done> read_old = GoJsonReader::Read(text, old);
  const uint64_t old_stored = old.checksum;
  const uint32_t old_computed = ChecksumOf(old);
  if (read_old.ok() && Matches(old_stored, old_computed)) {
    return Either(Verified<CpuDocumentV1>{std::move(old), old_stored, old_computed});
  }
  if (read.ok()) {
    return Mismatch(
        CheckpointKind::kCpu, stored, computed,
        ExplainMismatch(text, stored, HashedText(kCpuType, document), kNoCpuPodEntries));
  }
  if (read_old.ok()) {
    return Mismatch(CheckpointKind::kCpu, old_stored, old_computed,
                    "read as version 1, from before 1.18");
  }
  const bool looks_old = read.error().message.starts_with("entries");
  return WithRemedy(CheckpointKind::kCpu, looks_old ? read_old.error() : read.error());
}

Result<Verified<MemoryDocument>> ReadMemoryDocument(std::string_view text) {
  MemoryDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return WithRemedy(CheckpointKind::kMemory, read.error());
  }
  const uint64_t stored = document.checksum;
  const uint32_t computed = EitherChecksum(document, kMemoryOwnType);
  if (!Matches(stored, computed)) {
    return Mismatch(
        CheckpointKind::kMemory, stored, computed,
        ExplainMismatch(text, stored, HashedText(kMemoryType, document), kNoMemoryPodEntries));
  }
  return Verified<MemoryDocument>{std::move(document), stored, computed};
}

Result<Verified<DeviceDocument>> ReadDeviceDocument(std::string_view text) {
  DeviceDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    OldDeviceDocument old;
    const bool is_old = GoJsonReader::Read(text, old).ok() && old.data.pod_device_entries &&
                        !old.data.pod_device_entries->empty();
    return WithRemedy(CheckpointKind::kDevice, read.error(),
                      is_old ? "the file is from a kubelet before 1.20, whose format kubelet 1.36 "
                               "does not read either"
                             : "");
  }
  const uint64_t stored = document.checksum;
  const uint32_t computed = ChecksumOf(document);
  if (stored != computed) return Mismatch(CheckpointKind::kDevice, stored, computed);
  return Verified<DeviceDocument>{std::move(document), stored, computed};
}

}  // namespace alignd::checkpoint
