#include "alignd/checkpoint/convert.h"

#include <array>
#include <utility>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"

namespace alignd::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, KubeletRelease>, 5> kReleases{{
    {"1.20", KubeletRelease::k1_20},
    {"1.24", KubeletRelease::k1_24},
    {"1.36", KubeletRelease::k1_36},
    {"1.36-pod-level", KubeletRelease::k1_36_pod_level},
    {"1.37", KubeletRelease::k1_37},
}};

std::string NameOf(KubeletRelease release) {
  for (const auto& [name, known] : kReleases) {
    if (known == release) return std::string(name);
  }
  return "";
}

template <typename Map>
std::string KeysOf(const Map& map) {
  std::string keys;
  for (const auto& [key, value] : map) keys += (keys.empty() ? "" : ", ") + key;
  return keys;
}

StateForm FormFor(KubeletRelease release) {
  if (release == KubeletRelease::k1_37) return StateForm::kData;
  return release == KubeletRelease::k1_36_pod_level ? StateForm::kPodLevel : StateForm::kPlain;
}

// A pod's CPUs or memory as a whole are in no file of kubelets without the feature gate.
template <typename Document>
Result<Done> RequireNoPods(const Document& document, KubeletRelease release) {
  if (FormFor(release) != StateForm::kPlain) return Done{};
  if (!document.pod_entries || document.pod_entries->empty()) return Done{};
  const bool has_gate = release == KubeletRelease::k1_36;
  return Error{
      ErrorCode::kInvalidArgument,
      "pods have CPUs or memory as a whole, which kubelet " + NameOf(release) +
          (has_gate ? " without the feature gate PodLevelResourceManagers" : "") +
          " does not keep: " + KeysOf(*document.pod_entries),
      std::string("let these pods end first") +
          (has_gate ? "; or, if that kubelet has the gate on, convert to 1.36-pod-level" : "")};
}

Error NotTheSame(CheckpointKind kind) {
  return {ErrorCode::kInternal,
          std::string(FileNameOf(kind)) + " would be read back as something else",
          "keep the file as it is, and report this with the file"};
}

using Converted = Result<std::optional<std::string>>;

Converted ConvertCpu(std::string_view text, KubeletRelease release) {
  const Result<CpuCheckpoint> before = ParseCpuCheckpoint(text);
  if (!before.ok()) return before.error();
  const Result<Verified<CpuDocument>> read = ReadCpuDocument(text);
  if (!read.ok()) return read.error();
  const Result<Done> kept = RequireNoPods(read->document, release);
  if (!kept.ok()) return kept.error();
  std::string out = ToText(read->document, FormFor(release));
  const Result<CpuCheckpoint> after = ParseCpuCheckpoint(out);
  if (!after.ok() || *after != *before) return NotTheSame(CheckpointKind::kCpu);
  return std::optional(std::move(out));
}

Converted ConvertMemory(std::string_view text, KubeletRelease release) {
  const Result<MemoryCheckpoint> before = ParseMemoryCheckpoint(text);
  if (!before.ok()) return before.error();
  if (release == KubeletRelease::k1_20) {
    if (before->state.assignments.empty() && before->state.pods.empty()) {
      return std::optional<std::string>();
    }
    return Error{ErrorCode::kInvalidArgument,
                 "kubelet 1.20 has no memory manager, and containers of these pods have pinned "
                 "memory: " +
                     KeysOf(before->state.assignments),
                 "let these pods end first, or convert to a later release"};
  }
  const Result<Verified<MemoryDocument>> read = ReadMemoryDocument(text);
  if (!read.ok()) return read.error();
  const Result<Done> kept = RequireNoPods(read->document, release);
  if (!kept.ok()) return kept.error();
  std::string out = ToText(read->document, FormFor(release));
  const Result<MemoryCheckpoint> after = ParseMemoryCheckpoint(out);
  if (!after.ok() || *after != *before) return NotTheSame(CheckpointKind::kMemory);
  return std::optional(std::move(out));
}

// All these releases have the same form.
Converted ConvertDevices(std::string_view text) {
  const Result<DeviceCheckpoint> before = ParseDeviceCheckpoint(text);
  if (!before.ok()) return before.error();
  return std::optional(std::string(text));
}

}  // namespace

std::optional<KubeletRelease> ParseKubeletRelease(std::string_view text) {
  for (const auto& [name, release] : kReleases) {
    if (name == text) return release;
  }
  return std::nullopt;
}

KubeletRelease ReleaseOf(StateForm form) {
  switch (form) {
    case StateForm::kPlain:
      return KubeletRelease::k1_36;
    case StateForm::kPodLevel:
      return KubeletRelease::k1_36_pod_level;
    case StateForm::kData:
      break;
  }
  return KubeletRelease::k1_37;
}

KubeletRelease ReleaseOf(const KubeletConfig& config) {
  if (config.compatibility == Compatibility::k1_20) return KubeletRelease::k1_20;
  return ReleaseOf(FormOf(config));
}

Result<std::optional<std::string>> Convert(CheckpointKind kind, std::string_view text,
                                           KubeletRelease release) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return ConvertCpu(text, release);
    case CheckpointKind::kMemory:
      return ConvertMemory(text, release);
    case CheckpointKind::kDevice:
      break;
  }
  return ConvertDevices(text);
}

}  // namespace alignd::checkpoint
