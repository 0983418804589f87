#include "moving/container_cgroups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "cgroup/cgroup_tree.h"
#include "host/file.h"
#include "host/sysfs_value.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;

// The cgroups of containers lie at most so deep: kubepods, QoS class, pod, container, and what a
// system has above kubepods.
constexpr int kMaxDepth = 6;

// No machine has so much memory, in bytes.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// `kubepods/burstable/podUID` or `kubepods-burstable-podUID_WITH_UNDERSCORES.slice`; empty: not of
// a pod.
std::string PodUidOf(std::string name) {
  constexpr std::string_view kSlice = ".slice";
  if (name.ends_with(kSlice)) {
    const size_t pod = name.rfind("-pod");
    if (pod == std::string::npos) return "";
    name = name.substr(pod + 4, name.size() - pod - 4 - kSlice.size());
    std::ranges::replace(name, '_', '-');
    return name;
  }
  return name.starts_with("pod") ? name.substr(3) : "";
}

// The CPU sets of the containers of each pod.
class PodCpusets {
 public:
  explicit PodCpusets(const fs::path& root)
      : root_(root), tree_(root), base_(tree_.is_version2() ? root : root / "cpuset") {}

  Result<ContainerCpusets> Read() {
    std::error_code fault;
    if (!fs::is_directory(base_, fault)) {
      return Error{ErrorCode::kIo, base_.string() + " is not a directory that can be read",
                   "mount the cgroups, or run it as root"};
    }
    // Version 1: a cgroup that nothing has set, such as the sandbox's, has all CPUs.
    if (const Result<cgroup::Cpuset> all = tree_.ReadCpuset("/"); all.ok()) inherited_ = *all;
    Visit("", 0);
    return std::move(found_);
  }

 private:
  void Visit(const std::string& path, int depth) {
    if (depth > kMaxDepth) return;
    for (const std::string& name : Below(path)) {
      const std::string below = path + "/" + name;
      const bool is_above = name.starts_with("kubepods") || name == "burstable" ||
                            name == "besteffort" || name == "guaranteed" || name == "system" ||
                            name.ends_with(".slice");
      const std::string uid = PodUidOf(name);
      if (!uid.empty() && path.find("kubepods") != std::string::npos) {
        AddContainers(uid, below);
      } else if (is_above || name.starts_with("kubelet")) {
        Visit(below, depth + 1);
      }
    }
  }

  void AddContainers(const std::string& uid, const std::string& pod) {
    const Result<cgroup::Cpuset> above = tree_.ReadCpuset(pod);
    for (const std::string& name : Below(pod)) {
      if (name.starts_with("crio-conmon-")) continue;  // CRI-O's monitor of a container
      const Result<cgroup::Cpuset> cpuset = tree_.ReadCpuset(pod + "/" + name);
      if (!cpuset.ok()) continue;  // it has ended meanwhile
      ContainerCpuset& found = found_.pods[uid][pod + "/" + name];
      found.has_memory_limit = HasMemoryLimit(pod + "/" + name);
      if (cpuset->cpus != inherited_.cpus) found.cpus = cpuset->cpus;
      found.memory_nodes = cpuset->mems.empty() ? cpuset->effective_mems : cpuset->mems;
      // Version 1: a cgroup starts with the memory nodes of the one above.
      found.sets_memory_nodes = !cpuset->mems.empty() && cpuset->mems != inherited_.mems &&
                                !(above.ok() && cpuset->mems == above->mems);
    }
  }

  // Source: kernel Documentation/admin-guide/cgroup-v2.rst, memory.max: "max" without a limit;
  // cgroup-v1/memory.rst, memory.limit_in_bytes: then the largest multiple of a page.
  std::optional<bool> HasMemoryLimit(const std::string& path) const {
    const fs::path below = fs::path(path).relative_path();
    const fs::path file = tree_.is_version2() ? root_ / below / "memory.max"
                                              : root_ / "memory" / below / "memory.limit_in_bytes";
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok()) return std::nullopt;
    const std::string value = text->substr(0, text->find('\n'));
    if (value == "max") return false;
    const std::optional<uint64_t> bytes = host::ParseUint64(value);
    if (!bytes) return std::nullopt;
    return *bytes < kNoLimit;
  }

  std::vector<std::string> Below(const std::string& path) const {
    std::vector<std::string> names;
    std::error_code fault;
    for (fs::directory_iterator entry(base_ / fs::path(path).relative_path(), fault), end;
         !fault && entry != end; entry.increment(fault)) {
      std::error_code ignored;
      if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  const fs::path root_;
  const cgroup::CgroupTree tree_;
  const fs::path base_;
  cgroup::Cpuset inherited_;
  ContainerCpusets found_;
};

bool IsAssigned(const cpumanager::CpuState& state, const std::string& uid, const CpuSet& cpus) {
  const auto pod = state.assignments.find(uid);
  return pod != state.assignments.end() &&
         std::ranges::any_of(pod->second,
                             [&](const auto& container) { return container.second == cpus; });
}

// The exclusive CPUs of all pods but one.
CpuSet HeldByOthers(const cpumanager::CpuState& state, const std::string& uid) {
  CpuSet held;
  for (const auto& [other, containers] : state.assignments) {
    if (other != uid) held |= state.HeldBy(other);
  }
  return held;
}

// What the container had; null: it was not there.
const ContainerCpuset* Before(const ContainerCpusets& before, const std::string& uid,
                              const std::string& path) {
  const auto pod = before.pods.find(uid);
  if (pod == before.pods.end()) return nullptr;
  const auto container = pod->second.find(path);
  return container == pod->second.end() ? nullptr : &container->second;
}

std::string Name(const std::string& uid, const std::string& path) {
  return "a container of pod " + uid + " (cgroup " + path + ")";
}

std::string Names(const std::vector<std::string>& paths) {
  std::string names;
  for (const std::string& path : paths) names += (names.empty() ? "" : ", ") + path;
  return names;
}

// The CPUs of the containers of one pod.
void AddWrongCpus(const ContainerCpusets& before, const std::string& uid,
                  const std::map<std::string, ContainerCpuset>& containers,
                  const cpumanager::CpuState& state, const CpuSet& reserved,
                  std::vector<std::string>& misplaced) {
  // Its containers share CPUs: any part of them is right.
  if (state.pods.contains(uid)) return;
  const bool shares_reserved = reserved.Intersects(state.default_set);
  const CpuSet held = state.HeldBy(uid);
  const CpuSet others = HeldByOthers(state, uid);
  std::vector<std::string> unset;
  for (const auto& [path, cpuset] : containers) {
    if (cpuset.cpus.empty()) unset.push_back(path);
  }
  if (unset.size() > 1 && !held.empty()) {
    misplaced.push_back("a container of pod " + uid + " (one of the cgroups " + Names(unset) +
                        ") runs on all CPUs, and its pod is assigned CPUs " + held.ToString());
  }
  for (const auto& [path, cpuset] : containers) {
    const CpuSet& cpus = cpuset.cpus;
    const std::string what = Name(uid, path) + " runs on CPUs " + cpus.ToString();
    const ContainerCpuset* const earlier = Before(before, uid, path);
    if (earlier != nullptr && IsAssigned(state, uid, earlier->cpus) && cpus != earlier->cpus) {
      misplaced.push_back(what + ", and had the exclusive CPUs " + earlier->cpus.ToString());
    } else if (cpus.Intersects(held) && !IsAssigned(state, uid, cpus)) {
      misplaced.push_back(what + ", and its pod is assigned CPUs " + held.ToString());
    } else if (cpus.Intersects(others) && !cpus.Intersects(state.default_set) &&
               !cpus.Intersects(held)) {
      misplaced.push_back(what + ", which other pods are assigned");
    } else if (held.empty() && shares_reserved && !cpus.empty() && !cpus.Intersects(reserved) &&
               !cpus.Intersects(others)) {
      misplaced.push_back(what + " alone, and its pod is assigned none");
    }
  }
}

CpuSet NodesOf(const std::vector<memorymanager::Block>& blocks) {
  CpuSet nodes;
  for (const memorymanager::Block& block : blocks) {
    for (const int node : block.numa_affinity) nodes.Add(node);
  }
  return nodes;
}

// The memory nodes that a pod is assigned, by container; of the pod as a whole with an empty name.
std::map<std::string, CpuSet> MemoryNodesOf(const memorymanager::MemoryState& state,
                                            const std::string& uid) {
  std::map<std::string, CpuSet> nodes;
  if (const auto pod = state.assignments.find(uid); pod != state.assignments.end()) {
    for (const auto& [name, blocks] : pod->second) {
      if (!blocks.empty()) nodes[name] = NodesOf(blocks);
    }
  }
  if (const auto whole = state.pods.find(uid); whole != state.pods.end()) {
    nodes[""] = NodesOf(whole->second);
  }
  return nodes;
}

// Whether the memory manager can have assigned memory to this container: it does so for Guaranteed
// pods, whose containers have a limit, and for pods with memory as a whole.
bool CanHoldMemory(const memorymanager::MemoryState& state, const std::string& uid,
                   const std::string& path, const ContainerCpuset& cpuset) {
  if (state.pods.contains(uid)) return true;
  return path.find("burstable") == std::string::npos &&
         path.find("besteffort") == std::string::npos && cpuset.has_memory_limit.value_or(true);
}

// The containers of the pod that have exactly these exclusive CPUs: a container can have those of
// an init container that has ended.
std::vector<std::string> WithCpus(const cpumanager::CpuState& state, const std::string& uid,
                                  const CpuSet& cpus) {
  std::vector<std::string> names;
  const auto pod = state.assignments.find(uid);
  if (pod == state.assignments.end() || state.pods.contains(uid)) return names;
  for (const auto& [name, assigned] : pod->second) {
    if (assigned == cpus) names.push_back(name);
  }
  return names;
}

// The memory nodes of the containers of one pod.
void AddWrongMemory(const ContainerCpusets& before, const std::string& uid,
                    const std::map<std::string, ContainerCpuset>& containers,
                    const admission::NodeState& state, std::vector<std::string>& misplaced) {
  const std::map<std::string, CpuSet> assigned = MemoryNodesOf(state.memory, uid);
  const auto is_of = [&assigned](const std::string& name, const ContainerCpuset& cpuset) {
    const auto nodes = assigned.find(name);
    return nodes == assigned.end() ? !cpuset.sets_memory_nodes
                                   : nodes->second == cpuset.memory_nodes;
  };
  const auto is_of_pod = [&assigned](const CpuSet& nodes) {
    return std::ranges::any_of(assigned, [&](const auto& one) { return one.second == nodes; });
  };
  CpuSet all;
  for (const auto& [name, nodes] : assigned) all |= nodes;
  const std::string of_pod =
      all.empty() ? ", and its pod is assigned no memory"
                  : ", and its pod is assigned memory of NUMA nodes " + all.ToString();
  size_t right = 0;
  std::vector<std::string> unset;
  bool can_hold = false;  // one of those that are not set
  for (const auto& [path, cpuset] : containers) {
    const std::string what =
        Name(uid, path) + " may use memory of NUMA nodes " + cpuset.memory_nodes.ToString();
    const ContainerCpuset* const earlier = Before(before, uid, path);
    const std::vector<std::string> names = WithCpus(state.cpu, uid, cpuset.cpus);
    if (earlier != nullptr && earlier->sets_memory_nodes && is_of_pod(earlier->memory_nodes) &&
        cpuset.memory_nodes != earlier->memory_nodes) {
      misplaced.push_back(what + ", and had NUMA nodes " + earlier->memory_nodes.ToString());
    } else if (!names.empty()) {
      if (std::ranges::any_of(
              names, [&, &found = cpuset](const auto& name) { return is_of(name, found); })) {
        ++right;
        continue;
      }
      const auto nodes = assigned.find(names.front());
      misplaced.push_back(what + ", and container " + names.front() + " is assigned " +
                          (nodes == assigned.end()
                               ? "no memory"
                               : "memory of NUMA nodes " + nodes->second.ToString()));
    } else if (is_of_pod(cpuset.memory_nodes)) {
      ++right;
    } else if (cpuset.sets_memory_nodes) {
      if (CanHoldMemory(state.memory, uid, path, cpuset)) {
        misplaced.push_back(what + of_pod +
                            ": if another program has set cpuset.mems of the cgroup, set it back");
      }
    } else {
      unset.push_back(path);
      can_hold = can_hold || CanHoldMemory(state.memory, uid, path, cpuset);
    }
  }
  if (unset.size() > 1 && can_hold && right < assigned.size()) {
    misplaced.push_back("a container of pod " + uid + " (one of the cgroups " + Names(unset) +
                        ") may use memory of all NUMA nodes" + of_pod);
  }
}

}  // namespace

Result<ContainerCpusets> ContainerCpusets::Read(const fs::path& cgroup_root) {
  return PodCpusets(cgroup_root).Read();
}

std::vector<std::string> FindMisplaced(const ContainerCpusets& before, const ContainerCpusets& now,
                                       const admission::NodeState& state, const CpuSet& reserved) {
  std::vector<std::string> misplaced;
  for (const auto& [uid, containers] : now.pods) {
    AddWrongCpus(before, uid, containers, state.cpu, reserved, misplaced);
    // Without the static policy, nothing in the state says where memory is.
    if (!state.memory.machine.empty()) {
      AddWrongMemory(before, uid, containers, state, misplaced);
    }
  }
  return misplaced;
}

std::vector<std::string> FindNarrowedByOthers(const ContainerCpusets& now,
                                              const admission::NodeState& state) {
  std::vector<std::string> notes;
  if (state.memory.machine.empty()) return notes;
  for (const auto& [uid, containers] : now.pods) {
    const std::map<std::string, CpuSet> assigned = MemoryNodesOf(state.memory, uid);
    for (const auto& [path, cpuset] : containers) {
      const CpuSet& nodes = cpuset.memory_nodes;
      if (!cpuset.sets_memory_nodes || CanHoldMemory(state.memory, uid, path, cpuset) ||
          !WithCpus(state.cpu, uid, cpuset.cpus).empty() ||
          std::ranges::any_of(assigned, [&](const auto& one) { return one.second == nodes; })) {
        continue;
      }
      notes.push_back(Name(uid, path) + " may use memory of NUMA nodes " + nodes.ToString() +
                      ", which another program has set: the container is assigned no memory");
    }
  }
  return notes;
}

}  // namespace alignd::moving
