#include "alignd/memorymanager/memory_state.h"

#include <array>
#include <string_view>

namespace alignd::memorymanager {

std::string HugePageType(uint64_t page_bytes) {
  constexpr std::array<std::string_view, 7> kSuffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  size_t suffix = 0;
  while (page_bytes != 0 && page_bytes % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    page_bytes /= 1024;
    ++suffix;
  }
  return "hugepages-" + std::to_string(page_bytes) + std::string(kSuffixes[suffix]);
}

const std::vector<Block>* MemoryState::Find(const ContainerKey& key) const {
  const auto pod = assignments.find(key.pod_uid);
  if (pod == assignments.end()) return nullptr;
  const auto blocks = pod->second.find(key.container);
  return blocks == pod->second.end() ? nullptr : &blocks->second;
}

std::vector<Block> MemoryState::BookedFor(const std::string& pod_uid) const {
  if (const auto whole = pods.find(pod_uid); whole != pods.end()) return whole->second;
  std::vector<Block> booked;
  const auto pod = assignments.find(pod_uid);
  if (pod == assignments.end()) return booked;
  for (const auto& [container, blocks] : pod->second) {
    booked.insert(booked.end(), blocks.begin(), blocks.end());
  }
  return booked;
}

}  // namespace alignd::memorymanager
