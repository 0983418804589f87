// The output of `alignsim runtime` for the events of a container.
#pragma once

#include <string>

#include "simulator/runtime_model.h"

namespace alignd::simulator {

// One line per event, more for a new container's devices and environment:
//   create  default/web-0 main (…0007)  cpuset 2-3  mems 0  memory 67108864  quota 50000/100000
//           device /dev/gpu0 as /dev/gpu0 (rw)
//           env KEY=value
std::string Describe(const RuntimeModel::Event& event);

}  // namespace alignd::simulator
