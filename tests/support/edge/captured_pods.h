// The recorded requests of real kubelets, and the resources of their pods.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "alignd/pod/pod.h"

namespace alignd::testing {

// QoS, and by container its CPU request and limit in millis, its memory limit and, if there are
// any, its huge pages of 2 MiB, both in Mi. For `podlevel`, these are the sizes that
// the kubelet set: only its container b has resources of its own.
struct Made {
  QosClass qos;
  std::map<std::string, std::vector<int64_t>> containers;
};
inline const std::map<std::string, Made>& MadePods() {
  static const auto* const kMade = new std::map<std::string, Made>{
      {"guar-int", {QosClass::kGuaranteed, {{"main", {1000, 1000, 64}}}}},
      {"guar-500m", {QosClass::kGuaranteed, {{"main", {500, 500, 32}}}}},
      {"burst", {QosClass::kBurstable, {{"main", {100, 250, 128}}, {"reqonly", {50, 0, 0}}}}},
      {"beste", {QosClass::kBestEffort, {{"main", {0, 0, 0}}}}},
      {"mq-burst", {QosClass::kBurstable, {{"main", {100, 250, 128}}, {"reqonly", {50, 0, 0}}}}},
      {"huge", {QosClass::kGuaranteed, {{"main", {1000, 1000, 64, 8}}}}},
      {"prio", {QosClass::kBestEffort, {{"main", {0, 0, 0}}}}},
      {"annot", {QosClass::kBurstable, {{"main", {10, 0, 0}}}}},
      {"crash", {QosClass::kBurstable, {{"main", {20, 0, 0}}}}},
      {"gpu", {QosClass::kBurstable, {{"main", {100, 100, 16}}, {"nogpu", {0, 0, 0}}}}},
      {"gpucrash", {QosClass::kGuaranteed, {{"main", {100, 100, 16}}}}},
      {"sidecar",
       {QosClass::kGuaranteed,
        {{"side", {100, 100, 16}}, {"once", {100, 100, 16}}, {"app", {200, 200, 32}}}}},
      {"initapp",
       {QosClass::kGuaranteed, {{"prepare", {1000, 1000, 32}}, {"app", {200, 200, 32}}}}},
      {"twosizes",
       {QosClass::kGuaranteed, {{"small", {100, 100, 16}}, {"large", {1000, 1000, 48}}}}},
      {"podlevel", {QosClass::kGuaranteed, {{"a", {1000, 1000, 100}}, {"b", {500, 500, 50}}}}},
  };
  return *kMade;
}

// By the pod's name in CRI: `<name>-<node>`.
inline const Made* MadeOf(const std::string& pod_name) {
  const auto made = MadePods().find(pod_name.substr(0, pod_name.rfind('-')));
  return made == MadePods().end() ? nullptr : &made->second;
}

inline std::string BytesOf(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// All recordings; they exist only where the shared data does.
inline std::filesystem::path AllCaptures() {
  const char* shared = std::getenv("ALIGND_SHARED");
  return (shared != nullptr ? std::filesystem::path(shared)
                            : std::filesystem::path(ALIGND_SOURCE_DIR) / ".." / "shared") /
         "captures";
}

}  // namespace alignd::testing
