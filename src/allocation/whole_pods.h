// Pods of a state file that have CPUs or memory as a whole: the feature gate
// PodLevelResourceManagers.
#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::allocation {

// Forgets what pods have as a whole, as a kubelet without the feature gate does. Returns what to do
// about these pods if the rest is not valid: empty without such pods. `what`: CPUs or memory.
template <typename State>
std::string ForgetPods(const admission::Node& node, const std::filesystem::path& path,
                       const char* what, State& state) {
  if (PodLevelResourceManagersOn(node.config) || state.pods.empty()) return "";
  std::string uids;
  for (const auto& [uid, held] : state.pods) uids += (uids.empty() ? "" : ", ") + uid;
  state.pods.clear();
  const std::string pods = std::string("pods with ") + what + " as a whole: " + uids;
  spdlog::warn(
      "{}: {}; without the feature gate PodLevelResourceManagers, what their containers have "
      "counts as exclusive",
      path.string(), pods);
  return "the file is from a kubelet with the feature gate PodLevelResourceManagers and has " +
         pods + "; let them end under that kubelet first; or ";
}

template <typename State>
std::vector<std::string> WithoutContainer(const State& state) {
  std::vector<std::string> uids;
  for (const auto& [uid, whole] : state.pods) {
    if (!state.assignments.contains(uid)) uids.push_back(uid);
  }
  return uids;
}

// A kubelet writes what a pod has as a whole before the parts of its containers. If it ended in
// between, no container runs on these CPUs.
template <typename State>
void ReleaseUnused(const std::filesystem::path& path, const char* has, State& state) {
  for (const std::string& uid : WithoutContainer(state)) {
    spdlog::warn("{}: pod {} {}", path.string(), uid, has);
    ReleasePod(uid, state);
  }
}

}  // namespace alignd::allocation
