#include "cgroup/cgroup_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/descriptor.h"
#include "host/file.h"

namespace alignd::cgroup {
namespace {

namespace fs = std::filesystem;

constexpr char kNoCgroupFile[] = "check that --cgroup-root is the mount point of the cgroups";

bool IsVersion2(const fs::path& root) {
  const Result<std::string> controllers = host::ReadFile(root / "cgroup.controllers");
  return controllers.ok() && (" " + *controllers).find(" cpuset") != std::string::npos;
}

Result<std::string> ReadLine(const fs::path& path) {
  Result<std::string> text = host::ReadFile(path);
  if (text.ok()) text->erase(std::min(text->find('\n'), text->size()));
  return text;
}

Result<CpuSet> ReadList(const fs::path& path) {
  const Result<std::string> line = ReadLine(path);
  if (!line.ok()) return line.error();
  const Result<CpuSet> list = CpuSet::Parse(*line);
  if (!list.ok()) {
    return Error{ErrorCode::kCorrupt, path.string() + ": " + list.error().message, kNoCgroupFile};
  }
  return list;
}

// One write call: the kernel takes the text of each call as a whole value. Creates no file.
Result<Done> Write(const fs::path& path, std::string_view text) {
  const auto fault = [&path](int error) {
    return Error{error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "write " + path.string() + ": " + std::generic_category().message(error),
                 "check that alignd may write to the cgroups"};
  };
  const host::Descriptor file(
      open(path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.fd() < 0) return fault(errno);
  const ssize_t written = write(file.fd(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return Done{};
  return fault(written < 0 ? errno : EIO);
}

// `what`: the content of the file, for the error.
Result<int64_t> ParseNumber(const fs::path& path, std::string_view text, const char* what) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size()) return number;
  return Error{ErrorCode::kCorrupt, path.string() + ": \"" + std::string(text) + "\" is no " + what,
               kNoCgroupFile};
}

}  // namespace

CgroupTree::CgroupTree(fs::path root, SystemdUnits systemd)
    : root_(std::move(root)), version2_(IsVersion2(root_)), systemd_(std::move(systemd)) {}

fs::path CgroupTree::Directory(const char* controller, const std::string& path) const {
  return (version2_ ? root_ : root_ / controller) / fs::path(path).relative_path();
}

Result<Cpuset> CgroupTree::ReadCpuset(const std::string& path) const {
  const fs::path directory = Directory("cpuset", path);
  Cpuset cpuset;
  const std::pair<const char*, CpuSet*> files[] = {
      {"cpuset.cpus", &cpuset.cpus},
      {"cpuset.mems", &cpuset.mems},
      {version2_ ? "cpuset.cpus.effective" : "cpuset.effective_cpus", &cpuset.effective_cpus},
      {version2_ ? "cpuset.mems.effective" : "cpuset.effective_mems", &cpuset.effective_mems}};
  for (const auto& [name, list] : files) {
    Result<CpuSet> read = ReadList(directory / name);
    if (!read.ok()) return read.error();
    *list = *std::move(read);
  }
  return cpuset;
}

Result<Done> CgroupTree::WriteCpus(const std::string& path, const CpuSet& cpus) const {
  return Write(Directory("cpuset", path) / "cpuset.cpus", cpus.ToString());
}

Result<std::vector<int>> CgroupTree::ReadThreads(const std::string& path) const {
  const char* const name = version2_ ? "cgroup.threads" : "tasks";
  std::vector<fs::path> directories = {Directory("cpuset", path)};
  std::vector<int> threads;
  while (!directories.empty()) {
    const fs::path directory = std::move(directories.back());
    directories.pop_back();
    const fs::path file = directory / name;
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok()) return text.error();
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const Result<int64_t> thread = ParseNumber(file, rest.substr(0, end), "thread");
      if (!thread.ok()) return thread.error();
      // 0 stands for a thread that this process cannot see: its PID namespace is another one.
      if (*thread < 1 || *thread > std::numeric_limits<int>::max()) {
        return Error{ErrorCode::kCorrupt,
                     file.string() + ": " + std::to_string(*thread) + " is no thread of this host",
                     "run alignd in the PID namespace of the host"};
      }
      threads.push_back(static_cast<int>(*thread));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    std::error_code failed;
    for (fs::directory_iterator entry(directory, failed), last; !failed && entry != last;
         entry.increment(failed)) {
      if (entry->is_directory(failed)) directories.push_back(entry->path());
    }
    if (failed) {
      return Error{ErrorCode::kIo, "list " + directory.string() + ": " + failed.message(),
                   kNoCgroupFile};
    }
  }
  return threads;
}

std::vector<fs::path> CgroupTree::CpusetFiles(const std::string& path) const {
  const fs::path directory = Directory("cpuset", path);
  return {directory / "cpuset.cpus", directory / "cpuset.mems"};
}

Result<int64_t> CgroupTree::ReadHugepageLimit(const std::string& path,
                                              const std::string& size) const {
  const fs::path file =
      Directory("hugetlb", path) / ("hugetlb." + size + (version2_ ? ".max" : ".limit_in_bytes"));
  const Result<std::string> line = ReadLine(file);
  if (!line.ok()) return line.error();
  if (*line == "max") return std::numeric_limits<int64_t>::max();
  return ParseNumber(file, *line, "limit");
}

Result<std::optional<int64_t>> CgroupTree::ReadCpuQuota(const std::string& path) const {
  const fs::path file = CpuFiles(path)[0];
  const Result<std::string> line = ReadLine(file);
  if (!line.ok()) return line.error();
  // Version 2: "QUOTA PERIOD", or "max PERIOD" for none.
  const std::string_view quota = std::string_view(*line).substr(0, line->find(' '));
  if (quota == "max" || quota == "-1") return std::optional<int64_t>();
  const Result<int64_t> number = ParseNumber(file, quota, "quota");
  if (!number.ok()) return number.error();
  return std::optional<int64_t>(*number);
}

Result<std::optional<int64_t>> CgroupTree::LiftCpuQuota(const std::string& path) const {
  Result<std::optional<int64_t>> was = ReadCpuQuota(path);
  if (!was.ok() || !*was) return was;
  const Result<Done> lifted = Write(CpuFiles(path)[0], version2_ ? "max" : "-1");
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
  const fs::path period_file = version2_ ? file : Directory("cpu", path) / "cpu.cfs_period_us";
  const Result<std::string> text =
      version2_ ? Result<std::string>(line->substr(line->find(' ') + 1)) : ReadLine(period_file);
  if (!text.ok()) return text.error();
  const Result<int64_t> period = ParseNumber(period_file, *text, "period");
  if (!period.ok()) return period.error();
  if (*period <= 0)
    return Error{ErrorCode::kCorrupt, period_file.string() + ": no period", kNoCgroupFile};
  const Result<Done> written = Write(file, std::to_string(quota));
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
  return Write(CpuFiles(path)[1], text);
}

}  // namespace alignd::cgroup
