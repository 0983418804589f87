#include "allocation/allocation_events.h"

namespace alignd::allocation {

AllocationEvents& NoAllocationEvents() {
  static AllocationEvents none;  // without state
  return none;
}

}  // namespace alignd::allocation
