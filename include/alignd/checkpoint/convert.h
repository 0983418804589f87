// State files in the form that another kubelet release reads, without loss.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::checkpoint {

// A kubelet release by the forms of its state files.
enum class KubeletRelease {
  k1_20,            // no memory manager
  k1_24,            // 1.21 to 1.35
  k1_36,            // without the feature gate PodLevelResourceManagers
  k1_36_pod_level,  // with it
  k1_37,
};

// "1.20", "1.24", "1.36", "1.36-pod-level", "1.37"; nullopt: another text.
std::optional<KubeletRelease> ParseKubeletRelease(std::string_view text);

// The newest release that writes that form.
KubeletRelease ReleaseOf(StateForm form);

// The release whose files alignd writes under that configuration.
KubeletRelease ReleaseOf(const KubeletConfig& config);

// The whole file, with its checksums, as that release writes it; nullopt: the release has no such
// file, and nothing is lost without it. The result has been read back: it has the same content.
// Errors: those of Read...Document; kInvalidArgument, naming the pods, if the release cannot keep
// what the file has: CPUs or memory of a pod as a whole, or assigned memory in 1.20.
// Source: kubelet pkg/kubelet/cm/{cpumanager,memorymanager}/state/checkpoint.go of each release.
Result<std::optional<std::string>> Convert(CheckpointKind kind, std::string_view text,
                                           KubeletRelease release);

}  // namespace alignd::checkpoint
