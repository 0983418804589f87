// The cgroup of a container.
#pragma once

#include <memory>
#include <string>

#include "cgroup/cpuset_cgroup.h"

namespace alignd::reconcile {

// A value.
struct KnownCgroup {
  std::string path;
  // null: it was not read yet. One that was removed has no files, even if there is another of that
  // path.
  std::shared_ptr<const cgroup::CpusetCgroup> open;
};

}  // namespace alignd::reconcile
