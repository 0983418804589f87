// One pod that is being admitted. For the .cc files of AllocationManager alone.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocation/allocation_manager.h"

namespace alignd::allocation {

inline Error Stopping() { return {ErrorCode::kUnavailable, "alignd is stopping"}; }

// Lives until it is answered, and in the callbacks of plugins that have not answered yet.
struct AllocationManager::Operation {
  Pod pod;
  std::string source;
  KubeletAllocatedPod counted;
  StoppedPods stopped;
  std::optional<PodDecision> decision;  // once it is made; its end follows
  std::vector<AdmitDone> waiting;       // for this answer
  std::vector<Caller> behind;           // of the same pod, with more containers: decided afterwards
  bool ended = false;                   // answers that come now are late

  std::map<devicemanager::PreferenceQuery, std::optional<std::vector<std::string>>> preferences;
  int consultations = 0;
  size_t awaited = 0;  // answers of plugins

  std::optional<Reservation> reservation;  // what the ledger has reserved for it
  std::set<std::string> released;          // stopped pods that give back what they held for it
  std::map<ContainerKey, std::map<std::string, std::string>> responses;  // by resource
};

}  // namespace alignd::allocation
