#include "cgroup/cpuset_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "cgroup/cgroup_file.h"
#include "host/file.h"

namespace alignd::cgroup {

namespace fs = std::filesystem;

Result<CpusetCgroup> CpusetCgroup::Open(std::string directory, bool is_version2) {
  host::Descriptor opened(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (opened.fd() < 0) {
    const std::error_code code(errno, std::generic_category());
    const bool is_absent = code == std::errc::no_such_file_or_directory;
    const bool is_limit = code == std::errc::too_many_files_open;
    return Error{is_absent ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "open " + directory + ": " + code.message(),
                 is_limit ? "increase alignd's LimitNOFILE=" : kNoCgroupFile};
  }
  return CpusetCgroup({std::move(directory), std::move(opened)}, is_version2);
}

std::string CpusetCgroup::PathOf(const std::string& name) const {
  return directory_.path + "/" + name;
}

Result<CpuSet> CpusetCgroup::ReadList(const char* name) const {
  Result<std::string> text = host::ReadFileIn(directory_, name);
  if (!text.ok()) return text.error();
  text->erase(std::min(text->find('\n'), text->size()));
  const Result<CpuSet> list = CpuSet::Parse(*text);
  if (list.ok()) return list;
  return Error{ErrorCode::kCorrupt, PathOf(name) + ": " + list.error().message, kNoCgroupFile};
}

Result<CpuSet> CpusetCgroup::ReadEffectiveCpus() const {
  return ReadList(is_version2_ ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
}

Result<Cpuset> CpusetCgroup::ReadCpus() const {
  Result<CpuSet> cpus = ReadList("cpuset.cpus");
  if (!cpus.ok()) return cpus.error();
  Result<CpuSet> effective = ReadEffectiveCpus();
  if (!effective.ok()) return effective.error();
  return Cpuset{*std::move(cpus), {}, *std::move(effective), {}};
}

Result<Cpuset> CpusetCgroup::Read() const {
  Result<Cpuset> cpuset = ReadCpus();
  if (!cpuset.ok()) return cpuset;
  Result<CpuSet> mems = ReadList("cpuset.mems");
  if (!mems.ok()) return mems.error();
  Result<CpuSet> effective =
      ReadList(is_version2_ ? "cpuset.mems.effective" : "cpuset.effective_mems");
  if (!effective.ok()) return effective.error();
  cpuset->mems = *std::move(mems);
  cpuset->effective_mems = *std::move(effective);
  return cpuset;
}

Result<Done> CpusetCgroup::WriteCpus(const CpuSet& cpus) const {
  return WriteFileIn(directory_, "cpuset.cpus", cpus.ToString());
}

Result<std::vector<std::string>> CpusetCgroup::CgroupsBelow() const {
  struct stat status {};
  // A directory without others has two links: its name and its entry for itself. To list it, with a
  // name for each file of the controller, takes longer.
  if (fstat(directory_.descriptor.fd(), &status) == 0 && status.st_nlink == 2) {
    return std::vector<std::string>();
  }
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(directory_.path, failed), last; !failed && entry != last;
       entry.increment(failed)) {
    if (entry->is_directory(failed)) names.push_back(entry->path().filename());
  }
  if (!failed) return names;
  return Error{ErrorCode::kIo, "list " + directory_.path + ": " + failed.message(), kNoCgroupFile};
}

Result<Done> CpusetCgroup::AddThreads(std::vector<int>& threads) const {
  const char* const file = is_version2_ ? "cgroup.threads" : "tasks";
  const Result<std::string> text = host::ReadFileIn(directory_, file);
  if (!text.ok()) return text.error();
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const Result<int64_t> thread = ParseNumber(rest.substr(0, end), "thread");
    if (!thread.ok()) return thread.error().In(PathOf(file));
    // 0 stands for a thread that this process cannot see: its PID namespace is another one.
    if (*thread < 1 || *thread > std::numeric_limits<int>::max()) {
      return Error{ErrorCode::kCorrupt,
                   PathOf(file) + ": " + std::to_string(*thread) + " is no thread of this host",
                   "run alignd in the PID namespace of the host"};
    }
    threads.push_back(static_cast<int>(*thread));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Result<std::vector<std::string>> below = CgroupsBelow();
  if (!below.ok()) return below.error();
  for (const std::string& name : *below) {
    const Result<CpusetCgroup> child = Open(PathOf(name), is_version2_);
    const Result<Done> added = child.ok() ? child->AddThreads(threads) : child.error();
    if (!added.ok()) return added;
  }
  return Done{};
}

Result<std::vector<int>> CpusetCgroup::ReadThreads() const {
  std::vector<int> threads;
  const Result<Done> added = AddThreads(threads);
  if (!added.ok()) return added.error();
  return threads;
}

}  // namespace alignd::cgroup
