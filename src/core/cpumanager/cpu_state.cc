#include "alignd/cpumanager/cpu_state.h"

namespace alignd::cpumanager {

const CpuSet* CpuState::Find(const ContainerKey& key) const {
  const auto pod = assignments.find(key.pod_uid);
  if (pod == assignments.end()) return nullptr;
  const auto container = pod->second.find(key.container);
  return container == pod->second.end() ? nullptr : &container->second;
}

}  // namespace alignd::cpumanager
