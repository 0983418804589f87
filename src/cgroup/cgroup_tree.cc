#include "cgroup/cgroup_tree.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "cgroup/cgroup_file.h"
#include "host/file.h"

namespace alignd::cgroup {
namespace {

namespace fs = std::filesystem;

bool IsVersion2(const fs::path& root) {
  const Result<std::string> controllers = host::ReadFile(root / "cgroup.controllers");
  return controllers.ok() && (" " + *controllers).find(" cpuset") != std::string::npos;
}

Result<std::string> ReadLine(const fs::path& path) {
  Result<std::string> text = host::ReadFile(path);
  if (text.ok()) text->erase(std::min(text->find('\n'), text->size()));
  return text;
}

}  // namespace

CgroupTree::CgroupTree(fs::path root, SystemdUnits systemd)
    : root_(std::move(root)), version2_(IsVersion2(root_)), systemd_(std::move(systemd)) {}

// A string, as fs::path takes longer: it parses the path, and that of every file in it.
std::string CgroupTree::Directory(const char* controller, const std::string& path) const {
  std::string directory = root_;
  const auto add = [&directory](std::string_view part) {
    if (part.empty()) return;
    if (!directory.ends_with('/')) directory += '/';
    directory += part;
  };
  if (!version2_) add(controller);
  add(std::string_view(path).substr(std::min(path.find_first_not_of('/'), path.size())));
  return directory;
}

Result<CpusetCgroup> CgroupTree::OpenCpuset(const std::string& path) const {
  return CpusetCgroup::Open(Directory("cpuset", path), version2_);
}

Result<Cpuset> CgroupTree::ReadCpuset(const std::string& path) const {
  const Result<CpusetCgroup> cgroup = OpenCpuset(path);
  return cgroup.ok() ? cgroup->Read() : cgroup.error();
}

Result<Cpuset> CgroupTree::ReadCpus(const std::string& path) const {
  const Result<CpusetCgroup> cgroup = OpenCpuset(path);
  return cgroup.ok() ? cgroup->ReadCpus() : cgroup.error();
}

std::vector<fs::path> CgroupTree::CpusetFiles(const std::string& path) const {
  const fs::path directory = Directory("cpuset", path);
  return {directory / "cpuset.cpus", directory / "cpuset.mems"};
}

Result<int64_t> CgroupTree::ReadHugepageLimit(const std::string& path,
                                              const std::string& size) const {
  const fs::path file = fs::path(Directory("hugetlb", path)) /
                        ("hugetlb." + size + (version2_ ? ".max" : ".limit_in_bytes"));
  const Result<std::string> line = ReadLine(file);
  if (!line.ok()) return line.error();
  if (*line == "max") return std::numeric_limits<int64_t>::max();
  const Result<int64_t> limit = ParseNumber(*line, "limit");
  if (!limit.ok()) return limit.error().In(file.string());
  return limit;
}

Result<std::optional<int64_t>> CgroupTree::ReadCpuQuota(const std::string& path) const {
  const fs::path file = CpuFiles(path)[0];
  const Result<std::string> line = ReadLine(file);
  if (!line.ok()) return line.error();
  // Version 2: "QUOTA PERIOD", or "max PERIOD" for none.
  const std::string_view quota = std::string_view(*line).substr(0, line->find(' '));
  if (quota == "max" || quota == "-1") return std::optional<int64_t>();
  const Result<int64_t> number = ParseNumber(quota, "quota");
  if (!number.ok()) return number.error().In(file.string());
  return std::optional<int64_t>(*number);
}

Result<std::optional<int64_t>> CgroupTree::LiftCpuQuota(const std::string& path) const {
  Result<std::optional<int64_t>> was = ReadCpuQuota(path);
  if (!was.ok() || !*was) return was;
  const Result<Done> lifted = WriteFile(CpuFiles(path)[0], version2_ ? "max" : "-1");
  if (!lifted.ok()) return lifted.error();
  return was;
}

Result<std::optional<uint64_t>> CgroupTree::SetMissingCpuQuota(const std::string& path,
                                                               int64_t quota) const {
  const fs::path file = CpuFiles(path)[0];
  const Result<std::string> line = ReadLine(file);
  if (!line.ok()) return line.error();
  const Result<std::optional<int64_t>> now = ReadCpuQuota(path);
  if (!now.ok()) return now.error();
  if (*now) return std::optional<uint64_t>();
  const fs::path period_file =
      version2_ ? file : fs::path(Directory("cpu", path)) / "cpu.cfs_period_us";
  const Result<std::string> text =
      version2_ ? Result<std::string>(line->substr(line->find(' ') + 1)) : ReadLine(period_file);
  if (!text.ok()) return text.error();
  const Result<int64_t> period = ParseNumber(*text, "period");
  if (!period.ok()) return period.error().In(period_file.string());
  if (*period <= 0)
    return Error{ErrorCode::kCorrupt, period_file.string() + ": no period", kNoCgroupFile};
  const Result<Done> written = WriteFile(file, std::to_string(quota));
  if (!written.ok()) return written.error();
  constexpr uint64_t kMicrosPerSecond = 1'000'000;
  return std::optional(static_cast<uint64_t>(quota) * kMicrosPerSecond /
                       static_cast<uint64_t>(*period));
}

std::vector<fs::path> CgroupTree::CpuFiles(const std::string& path) const {
  const fs::path directory = Directory("cpu", path);
  return {directory / (version2_ ? "cpu.max" : "cpu.cfs_quota_us"),
          directory / (version2_ ? "cpu.weight" : "cpu.shares")};
}

Result<std::string> CgroupTree::ReadCpuShares(const std::string& path) const {
  return ReadLine(CpuFiles(path)[1]);
}

Result<Done> CgroupTree::WriteCpuShares(const std::string& path, const std::string& text) const {
  return WriteFile(CpuFiles(path)[1], text);
}

}  // namespace alignd::cgroup
