#include "core/placement/object_kinds.h"

#include <algorithm>

namespace alignd::placement {
namespace {

struct GroupKind {
  std::string_view name;
  std::string_view group;  // empty: the core group, whose version is v1
};

constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
constexpr std::string_view kNetworking = "networking.k8s.io";

constexpr auto kWithoutPods = std::to_array<GroupKind>({{"ClusterRole", kRbac},
                                                        {"ClusterRoleBinding", kRbac},
                                                        {"ConfigMap", ""},
                                                        {"Endpoints", ""},
                                                        {"EndpointSlice", "discovery.k8s.io"},
                                                        {"HorizontalPodAutoscaler", "autoscaling"},
                                                        {"Ingress", kNetworking},
                                                        {"IngressClass", kNetworking},
                                                        {"Namespace", ""},
                                                        {"NetworkPolicy", kNetworking},
                                                        {"PersistentVolume", ""},
                                                        {"PersistentVolumeClaim", ""},
                                                        {"PodDisruptionBudget", "policy"},
                                                        {"PriorityClass", "scheduling.k8s.io"},
                                                        {"Role", kRbac},
                                                        {"RoleBinding", kRbac},
                                                        {"Secret", ""},
                                                        {"Service", ""},
                                                        {"ServiceAccount", ""},
                                                        {"StorageClass", "storage.k8s.io"}});

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

}  // namespace

bool IsRuntimeClass(std::string_view kind, std::string_view api_version) {
  return kind == "RuntimeClass" && GroupOf(api_version) == "node.k8s.io";
}

bool HasNoPods(std::string_view kind, std::string_view api_version) {
  return std::ranges::any_of(kWithoutPods, [&](const GroupKind& known) {
    return known.name == kind && known.group == GroupOf(api_version);
  });
}

}  // namespace alignd::placement
