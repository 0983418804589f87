#include "alignd/checkpoint/documents.h"

#include <utility>
#include <vector>

#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "core/checkpoint/state_files.h"

namespace alignd::checkpoint {
namespace {

constexpr StateNames kCpuNames = {.kind = CheckpointKind::kCpu,
                                  .type = "state.CPUManagerCheckpoint",
                                  .plain_type = "state.CPUManagerCheckpointV2",
                                  .pod_level_type = "state.CPUManagerCheckpointV3",
                                  .manager = "cpu manager"};
constexpr StateNames kMemoryNames = {.kind = CheckpointKind::kMemory,
                                     .type = "state.MemoryManagerCheckpoint",
                                     .plain_type = "state.MemoryManagerCheckpointV1",
                                     .pod_level_type = "",
                                     .manager = "memory manager"};

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

// Whether a CPU file that does not verify is a version 1. Versions 1 and 2 have the same text if
// there are no entries; then only the checksum differs.
bool IsFromBefore118(std::string_view text) {
  CpuDocumentBefore118 old;
  if (!GoJsonReader::Read(text, old).ok()) return false;
  PlainFile<CpuDocument> plain;
  return !GoJsonReader::Read(text, plain).ok() ||
         ChecksumOfFile(kCpuNames.type, old) == plain.checksum;
}

Error FromBefore118() {
  return {ErrorCode::kCorrupt,
          "the file is from a kubelet before 1.18 and names containers by the runtime's ids; this "
          "format is not supported"};
}

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
      return "please drain this node and delete the CPU manager checkpoint file before restarting "
             "a kubelet; alignd rebuilds the file at its start";
    case CheckpointKind::kMemory:
      return "please drain this node and delete the memory manager checkpoint file before "
             "restarting a kubelet; alignd rebuilds the file at its start";
    case CheckpointKind::kDevice:
      break;
  }
  return "please drain this node and delete the device manager checkpoint file before restarting "
         "a kubelet, for which all devices are free without it; alignd rebuilds the file at its "
         "start";
}

StateForm FormOf(const KubeletConfig& config) {
  if (config.compatibility == Compatibility::k1_37) return StateForm::kData;
  return PodLevelResourceManagersOn(config) ? StateForm::kPodLevel : StateForm::kPlain;
}

int VersionOf(CheckpointKind kind, StateForm form) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return 2 + static_cast<int>(form);
    case CheckpointKind::kMemory:
      return 1 + static_cast<int>(form);
    case CheckpointKind::kDevice:
      break;
  }
  return 2;
}

Error WithRemedy(CheckpointKind kind, const Error& error, std::string_view explanation) {
  std::string remedy(explanation);
  if (!remedy.empty()) remedy += "; ";
  return {error.code, error.message, remedy + std::string(RemedyOf(kind))};
}

Error Mismatch(CheckpointKind kind, uint64_t stored, uint32_t computed) {
  return WithRemedy(kind, {ErrorCode::kCorrupt, "checkpoint is corrupted"},
                    "its checksum is " + std::to_string(stored) + ", its content has " +
                        std::to_string(computed));
}

uint32_t ChecksumOf(const CpuDocument& document) {
  return ChecksumOfFile(kCpuNames.type, PlainFile<CpuDocument>{document});
}

uint32_t ChecksumOf(const MemoryDocument& document) {
  return ChecksumOfFile(kMemoryNames.type, PlainFile<MemoryDocument>{document});
}

uint32_t ChecksumOf(const DeviceDocument& document) {
  return Fnv1a32(GoPrinter::Struct("checkpoint.checkpointData", document.data));
}

std::string ToText(const CpuDocument& document, StateForm form) {
  return FileText(kCpuNames, document, form);
}

std::string ToText(const MemoryDocument& document, StateForm form) {
  return FileText(kMemoryNames, document, form);
}

std::string ToText(DeviceDocument document) {
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Result<Verified<CpuDocument>> ReadCpuDocument(std::string_view text) {
  Result<Verified<CpuDocument>> read = ReadState<CpuDocument>(kCpuNames, text);
  if (!read.ok() && IsFromBefore118(text)) return WithRemedy(CheckpointKind::kCpu, FromBefore118());
  return read;
}

Result<Verified<MemoryDocument>> ReadMemoryDocument(std::string_view text) {
  return ReadState<MemoryDocument>(kMemoryNames, text);
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
