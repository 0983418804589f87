#include "alignd/checkpoint/verify.h"

#include <algorithm>
#include <vector>

#include "alignd/checkpoint/go_json_reader.h"

namespace alignd::checkpoint {
namespace {

template <typename V>
size_t CountOf(const GoMap<std::string, V>& map) {
  return map ? map->size() : 0;
}

template <typename V>
size_t CountOf(const GoMap<std::string, GoMap<std::string, V>>& map) {
  size_t count = 0;
  if (map) {
    for (const auto& [pod, containers] : *map) count += CountOf(containers);
  }
  return count;
}

template <typename Document>
Verification Describe(CheckpointKind kind, const Verified<Document>& verified) {
  return {.kind = kind,
          .version = VersionOf(kind, verified.form),
          .policy_name = verified.document.policy_name,
          .entries = CountOf(verified.document.entries),
          .pods = CountOf(verified.document.pod_entries),
          .plain_part_agrees = verified.plain_part_agrees,
          .stored_checksum = verified.stored_checksum,
          .computed_checksum = verified.computed_checksum,
          .plain_checksum = verified.plain_checksum};
}

Result<Verification> VerifyCpu(std::string_view text) {
  const Result<Verified<CpuDocument>> read = ReadCpuDocument(text);
  if (!read.ok()) return read.error();
  return Describe(CheckpointKind::kCpu, *read);
}

Result<Verification> VerifyMemory(std::string_view text) {
  const Result<Verified<MemoryDocument>> read = ReadMemoryDocument(text);
  if (!read.ok()) return read.error();
  return Describe(CheckpointKind::kMemory, *read);
}

Result<Verification> VerifyDevice(std::string_view text) {
  const Result<Verified<DeviceDocument>> read = ReadDeviceDocument(text);
  if (!read.ok()) return read.error();
  const auto& entries = read->document.data.pod_device_entries;
  return Verification{.kind = CheckpointKind::kDevice,
                      .version = VersionOf(CheckpointKind::kDevice, StateForm::kPlain),
                      .policy_name = "",
                      .entries = entries ? entries->size() : 0,
                      .stored_checksum = read->stored_checksum,
                      .computed_checksum = read->computed_checksum};
}

}  // namespace

Result<Verification> VerifyCheckpoint(CheckpointKind kind, std::string_view text) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return VerifyCpu(text);
    case CheckpointKind::kMemory:
      return VerifyMemory(text);
    case CheckpointKind::kDevice:
      break;
  }
  return VerifyDevice(text);
}

std::optional<CheckpointKind> KindOfFileName(std::string_view path) {
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (const auto kind : {CheckpointKind::kCpu, CheckpointKind::kMemory, CheckpointKind::kDevice}) {
    if (name.find(FileNameOf(kind)) != std::string_view::npos) return kind;
  }
  return std::nullopt;
}

std::optional<CheckpointKind> KindOfText(std::string_view text) {
  const Result<JsonNode> parsed = ParseJson(text);
  if (!parsed.ok()) return std::nullopt;
  const auto has = [&parsed](std::string_view name) {
    return std::ranges::any_of(parsed->children, [name](const JsonNode& member) {
      return MatchesField(member.key, name);
    });
  };
  std::vector<CheckpointKind> kinds;
  if (has("defaultCpuSet")) kinds.push_back(CheckpointKind::kCpu);
  if (has("machineState")) kinds.push_back(CheckpointKind::kMemory);
  // The other two kinds have a `data` from kubelet 1.37 on.
  if (kinds.empty() && has("Data")) kinds.push_back(CheckpointKind::kDevice);
  if (kinds.size() != 1) return std::nullopt;
  return kinds.front();
}

}  // namespace alignd::checkpoint
