#include "alignd/checkpoint/documents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"

namespace alignd::checkpoint {
namespace {

// The type names that kubelet 1.36 hashes when it writes. When it reads, it also accepts the own
// names of two of them.
constexpr std::string_view kCpuType = "state.CPUManagerCheckpoint";
constexpr std::string_view kCpuOwnType = "state.CPUManagerCheckpointV2";
constexpr std::string_view kMemoryType = "state.MemoryManagerCheckpoint";
constexpr std::string_view kMemoryOwnType = "state.MemoryManagerCheckpointV1";

// With the feature gate PodLevelResourceManagers and without pod-level resources, the hashed text
// has this before its checksum.
constexpr std::string_view kNoCpuPodEntries = " PodEntries:(state.PodCPUAssignments)map[]";
constexpr std::string_view kNoMemoryPodEntries = " PodEntries:(state.PodMemoryAssignments)map[]";

// cpu_manager_state, version 1, from a kubelet before 1.18. Recognised, so that the error names it.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go, CPUManagerCheckpointV1.
struct CpuDocumentBefore118 {
  std::string policy_name;
  std::string default_cpu_set;
  GoMap<std::string, std::string> entries = {{}};  // container id of the runtime -> CPU list
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"policyName", "PolicyName", "string"}, self.policy_name);
    visit({"defaultCpuSet", "DefaultCPUSet", "string"}, self.default_cpu_set);
    visit({"entries", "Entries", "map[string]string", true}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// An entry of a kubelet before 1.20: ids without NUMA nodes. Recognised, so that the error names
// it.
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

// The message is the kubelet's; the remedy has the numbers.
Error Mismatch(CheckpointKind kind, uint64_t stored, uint32_t computed,
               std::string_view explanation = "") {
  std::string numbers =
      "its checksum is " + std::to_string(stored) + ", its content has " + std::to_string(computed);
  if (!explanation.empty()) numbers += " (" + std::string(explanation) + ")";
  return WithRemedy(kind, {ErrorCode::kCorrupt, "checkpoint is corrupted"}, numbers);
}

// The likely reason for a checksum that does not match; empty if unknown. `hashed_text` ends with a
// checksum field.
std::string_view ExplainMismatch(std::string_view text, uint64_t stored, std::string hashed_text,
                                 std::string_view no_pod_entries) {
  hashed_text.insert(hashed_text.rfind(" Checksum:"), no_pod_entries);
  const Result<JsonNode> parsed = ParseJson(text);
  const bool has_pod_entries =
      parsed.ok() && std::ranges::any_of(parsed->children, [](const JsonNode& member) {
        return MatchesField(member.key, "podEntries");
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

// Whether a CPU file that is no valid version 2 is a version 1. Both versions have the same text if
// there are no entries; then only the checksum differs.
bool IsFromBefore118(std::string_view text, bool reads_as_version2) {
  CpuDocumentBefore118 old;
  if (!GoJsonReader::Read(text, old).ok()) return false;
  return !reads_as_version2 || Fnv1a32(HashedText(kCpuType, old)) == old.checksum;
}

Error FromBefore118() {
  return {ErrorCode::kCorrupt,
          "the file is from a kubelet before 1.18 and names containers by the runtime's ids; this "
          "format is not supported"};
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
         "without it all devices are free";
}

uint32_t ChecksumOf(const CpuDocument& document) { return Fnv1a32(HashedText(kCpuType, document)); }

uint32_t ChecksumOf(const MemoryDocument& document) {
  return Fnv1a32(HashedText(kMemoryType, document));
}

uint32_t ChecksumOf(const DeviceDocument& document) {
  return Fnv1a32(GoPrinter::Struct("checkpoint.checkpointData", document.data));
}

std::string ToText(CpuDocument document) { return FinishedText(std::move(document)); }
std::string ToText(MemoryDocument document) { return FinishedText(std::move(document)); }
std::string ToText(DeviceDocument document) { return FinishedText(std::move(document)); }

Result<Verified<CpuDocument>> ReadCpuDocument(std::string_view text) {
  CpuDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return WithRemedy(CheckpointKind::kCpu,
                      IsFromBefore118(text, false) ? FromBefore118() : read.error());
  }
  const uint64_t stored = document.checksum;
  const uint32_t computed = EitherChecksum(document, kCpuOwnType);
  if (Matches(stored, computed))
    return Verified<CpuDocument>{std::move(document), stored, computed};
  if (IsFromBefore118(text, true)) return WithRemedy(CheckpointKind::kCpu, FromBefore118());
  return Mismatch(CheckpointKind::kCpu, stored, computed,
                  ExplainMismatch(text, stored, HashedText(kCpuType, document), kNoCpuPodEntries));
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
