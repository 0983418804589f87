// Private to the core.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/pod/pod.h"
#include "alignd/pod/scoped_annotations.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// Why annotations of this key, which the pod may choose, cannot be followed. nullopt: no reason.
inline std::optional<Objection> ObjectionToScoped(std::string_view key, const Pod& pod,
                                                  const ScopedAnnotations& read) {
  const std::string annotation(key);
  if (!read.fault.empty()) {
    return Objection{read.fault, "correct the annotation, for example " + annotation +
                                     R"(.resource-policy.nri.io/container.NAME: "true", )"
                                     R"(or remove it)"};
  }
  for (const std::string& name : ContainersNamed(read)) {
    // Of a pod that is not complete, it can be another container.
    const bool is_known =
        std::ranges::find(pod.containers, name, &Container::name) != pod.containers.end();
    if (!pod.is_complete || is_known) continue;
    return Objection{
        "the pod has an annotation " + annotation + " for container " + name +
            ", and no container of that name",
        "correct the name in the annotation, remove the annotation, or name the container "
        "in the annotation with resources, if the pod has one"};
  }
  return std::nullopt;
}

}  // namespace alignd::admission
