// The kinds of Kubernetes objects that manifests have. Private to the core.
#pragma once

#include <array>
#include <string_view>

namespace alignd::placement {

struct Kind {
  std::string_view name;
  std::string_view api_version;
};

inline constexpr std::array kWithPods = {Kind{"Pod", "v1"},
                                         Kind{"Deployment", "apps/v1"},
                                         Kind{"StatefulSet", "apps/v1"},
                                         Kind{"DaemonSet", "apps/v1"},
                                         Kind{"ReplicaSet", "apps/v1"},
                                         Kind{"Job", "batch/v1"},
                                         Kind{"CronJob", "batch/v1"}};

inline constexpr std::string_view kReadKinds =
    "Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, RuntimeClass and lists of "
    "them are read";

bool IsRuntimeClass(std::string_view kind, std::string_view api_version);

// Whether the object makes no pods and changes none. A kind of another API group can have the same
// name and make pods: a Service of serving.knative.dev/v1 does.
bool HasNoPods(std::string_view kind, std::string_view api_version);

}  // namespace alignd::placement
