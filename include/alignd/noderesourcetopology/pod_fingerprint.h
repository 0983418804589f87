// The fingerprint of a set of pods, by which a scheduler sees whether a NodeResourceTopology object
// already counts the pods that it has placed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::noderesourcetopology {

// A pod of a node. `uid`: empty if it is not known.
struct PodIdentity {
  std::string name_space;
  std::string name;
  std::string uid = {};
};

// "pfp0v001" and 16 hexadecimal digits. The order of the pods makes no difference.
// Source: github.com/k8stopologyawareschedwg/podfingerprint, podfingerprint.go: XXH64 of the sorted
// hashes of the pods; a pod's hash is XXH64 of its name, with XXH64 of its namespace as the seed.
std::string PodFingerprint(const std::vector<PodIdentity>& pods);

// The same of their UIDs, in place of their names: another pod with the name of one of them has
// another one. nullopt: not all of the UIDs are known.
std::optional<std::string> UidFingerprint(const std::vector<PodIdentity>& pods);

// The hash XXH64. Source: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
uint64_t Xxh64(std::string_view text, uint64_t seed = 0);

}  // namespace alignd::noderesourcetopology
