#include "cgroup/cgroup_path.h"

#include <algorithm>

namespace alignd::cgroup {
namespace {

constexpr std::string_view kSlice = ".slice";

// Whether every part between slashes is the name of a directory entry.
bool IsPlain(std::string_view path) {
  if (!path.starts_with('/') || path.size() == 1 || path.find('\0') != std::string_view::npos) {
    return false;
  }
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(part.size());
  }
  return true;
}

Result<std::string> Checked(std::string path, std::string_view what) {
  if (IsPlain(path)) return path;
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(what) + "\" is no cgroup path below the mount point",
               "correct the cgroup parent of the pod's sandbox"};
}

// `a-b.slice` lies in `a.slice`: "/a.slice/a-b.slice".
std::string ExpandSlice(std::string_view name) {
  const std::string_view stem = name.substr(0, name.size() - kSlice.size());
  std::string path;
  for (size_t dash = stem.find('-'); dash != std::string_view::npos;
       dash = stem.find('-', dash + 1)) {
    path += "/" + std::string(stem.substr(0, dash)) + std::string(kSlice);
  }
  return path + "/" + std::string(name);
}

}  // namespace

Result<std::string> PathOfContainer(std::string_view cgroups_path) {
  const size_t first = cgroups_path.find(':');
  if (first == std::string_view::npos) return Checked(std::string(cgroups_path), cgroups_path);
  const size_t second = cgroups_path.find(':', first + 1);
  if (second == std::string_view::npos) return Checked("", cgroups_path);
  const std::string_view slice = cgroups_path.substr(0, first);
  const std::string prefix(cgroups_path.substr(first + 1, second - first - 1));
  const std::string name(cgroups_path.substr(second + 1));
  if (name.empty()) return Checked("", cgroups_path);
  const Result<std::string> parent = PathOfParent(slice.empty() ? "system.slice" : slice);
  if (!parent.ok()) return parent.error();
  return Checked(*parent + "/" + (prefix.empty() ? "" : prefix + "-") + name + ".scope",
                 cgroups_path);
}

Result<std::string> PathOfParent(std::string_view cgroup_parent) {
  const bool bare_slice =
      cgroup_parent.find('/') == std::string_view::npos && cgroup_parent.ends_with(kSlice);
  return Checked(bare_slice ? ExpandSlice(cgroup_parent) : std::string(cgroup_parent),
                 cgroup_parent);
}

std::optional<std::string> CpusetPathOfProcess(std::string_view text, bool version2) {
  while (!text.empty()) {
    // "ID:CONTROLLERS:PATH"; version 2: "0::PATH".
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool found =
        version2 ? controllers.empty()
                 : ("," + std::string(controllers) + ",").find(",cpuset,") != std::string::npos;
    if (found) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

bool IsOfPod(std::string_view path, std::string_view pod_uid) {
  if (pod_uid.empty()) return false;
  const std::string_view last = path.substr(path.rfind('/') + 1);
  if (last == "pod" + std::string(pod_uid)) return true;
  std::string escaped(pod_uid);
  std::ranges::replace(escaped, '-', '_');
  return last.ends_with("-pod" + escaped + std::string(kSlice));
}

}  // namespace alignd::cgroup
