#include "moving/container_cgroups.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "cgroup/cgroup_tree.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;

// The cgroups of containers lie at most so deep: kubepods, QoS class, pod, container, and what a
// system has above kubepods.
constexpr int kMaxDepth = 6;

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
      : tree_(root), base_(tree_.is_version2() ? root : root / "cpuset") {}

  Result<ContainerCpusets> Read() {
    std::error_code fault;
    if (!fs::is_directory(base_, fault)) {
      return Error{ErrorCode::kIo, base_.string() + " is not a directory that can be read",
                   "mount the cgroups, or run it as root"};
    }
    // Version 1: a cgroup that nothing has set, such as the sandbox's, has all CPUs.
    if (const Result<cgroup::Cpuset> all = tree_.ReadCpuset("/"); all.ok()) inherited_ = all->cpus;
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
    for (const std::string& name : Below(pod)) {
      if (name.starts_with("crio-conmon-")) continue;  // CRI-O's monitor of a container
      const Result<cgroup::Cpuset> cpuset = tree_.ReadCpuset(pod + "/" + name);
      if (!cpuset.ok()) continue;  // it has ended meanwhile
      found_.pods[uid][pod + "/" + name] = cpuset->cpus == inherited_ ? CpuSet() : cpuset->cpus;
    }
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

  const cgroup::CgroupTree tree_;
  const fs::path base_;
  CpuSet inherited_;
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

// Where the container was; null: it was not there.
const CpuSet* Before(const ContainerCpusets& before, const std::string& uid,
                     const std::string& path) {
  const auto pod = before.pods.find(uid);
  if (pod == before.pods.end()) return nullptr;
  const auto container = pod->second.find(path);
  return container == pod->second.end() ? nullptr : &container->second;
}

}  // namespace

Result<ContainerCpusets> ContainerCpusets::Read(const fs::path& cgroup_root) {
  return PodCpusets(cgroup_root).Read();
}

std::vector<std::string> FindMisplaced(const ContainerCpusets& before, const ContainerCpusets& now,
                                       const cpumanager::CpuState& state, const CpuSet& reserved) {
  std::vector<std::string> misplaced;
  const bool shares_reserved = reserved.Intersects(state.default_set);
  for (const auto& [uid, containers] : now.pods) {
    // Its containers share CPUs: any part of them is right.
    if (state.pods.contains(uid)) continue;
    const CpuSet held = state.HeldBy(uid);
    const CpuSet others = HeldByOthers(state, uid);
    const auto unset = std::ranges::count_if(
        containers, [](const auto& container) { return container.second.empty(); });
    if (unset > 1 && !held.empty()) {
      misplaced.push_back("a container of pod " + uid +
                          " runs on all CPUs, and its pod is assigned CPUs " + held.ToString());
    }
    for (const auto& [path, cpus] : containers) {
      const std::string what =
          "a container of pod " + uid + " (cgroup " + path + ") runs on CPUs " + cpus.ToString();
      const CpuSet* const earlier = Before(before, uid, path);
      if (earlier != nullptr && IsAssigned(state, uid, *earlier) && cpus != *earlier) {
        misplaced.push_back(what + ", and had the exclusive CPUs " + earlier->ToString());
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
  return misplaced;
}

}  // namespace alignd::moving
