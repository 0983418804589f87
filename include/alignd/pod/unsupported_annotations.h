// The annotations of pods by which cri-resource-manager and nri-plugins choose CPUs and memory,
// that by which Koordinator chooses devices, and those that are misspelt: in alignd's own domain,
// or in one or two characters of the name of one that is read. alignd follows none of them: it
// names those that a pod has.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace alignd {

// So many names are kept of a pod, the first ones by name.
inline constexpr size_t kMaxUnsupported = 16;

// The name without its scope, if the annotation is one of them: of
// prefer-shared-cpus.resource-policy.nri.io/container.app what is before the '/'. In the older
// form, the domain is before the '/': resource-policy.nri.io/prefer-shared-cpus is the whole name.
// Empty: it is none of them. Source: intel/cri-resource-manager and containers/nri-plugins, docs of
// the policy topology-aware, and docs/resource-policy/migration-guide.md of the latter.
std::string_view UnsupportedName(std::string_view annotation);

// Adds the name of an annotation that alignd does not follow.
void NoteUnsupported(std::string_view annotation, std::set<std::string>& names);
// The same of a part of an annotation.
void AddUnsupported(std::string_view name, std::set<std::string>& names);

// "annotations hide-hyperthreads.resource-policy.nri.io, ... are not supported"; empty: no names.
std::string DescribeUnsupported(const std::set<std::string>& names);

}  // namespace alignd
