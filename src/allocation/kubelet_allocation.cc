#include "allocation/kubelet_allocation.h"

namespace alignd::allocation {

KubeletAllocation& NoKubeletAllocation() {
  static KubeletAllocation none;
  return none;
}

}  // namespace alignd::allocation
