// The fingerprint of a set of pods, by which a scheduler sees whether a NodeResourceTopology object
// already counts the pods that it has placed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace alignd::noderesourcetopology {

// Namespace and name.
using PodName = std::pair<std::string, std::string>;

// "pfp0v001" and 16 hexadecimal digits. The order of the pods makes no difference.
// Source: github.com/k8stopologyawareschedwg/podfingerprint, podfingerprint.go: XXH64 of the sorted
// hashes of the pods; a pod's hash is XXH64 of its name, with XXH64 of its namespace as the seed.
std::string PodFingerprint(const std::vector<PodName>& pods);

// The hash XXH64. Source: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
uint64_t Xxh64(std::string_view text, uint64_t seed = 0);

}  // namespace alignd::noderesourcetopology
