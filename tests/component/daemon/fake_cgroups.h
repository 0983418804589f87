// The cgroup files that a runtime and a kubelet would create for simulated containers.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "host/file.h"
#include "simulator/runtime_model.h"
#include "sync/mutex.h"

namespace alignd::daemon {

// Version 1, or version 2 if `unified`. Thread-safe.
class FakeCgroups {
 public:
  FakeCgroups(std::filesystem::path root, bool unified, std::string all_cpus)
      : root_(std::move(root)), unified_(unified), all_cpus_(std::move(all_cpus)) {
    std::filesystem::create_directories(unified_ ? root_ : root_ / "cpuset");
    if (unified_) Write(root_ / "cgroup.controllers", "cpuset cpu memory\n");
  }

  // Does what the runtime does to the cgroup at each event of a container.
  void Apply(const simulator::RuntimeModel::Event& event) const {
    using Change = simulator::RuntimeModel::Change;
    const simulator::SimulatedContainer& container = event.container;
    const std::filesystem::path directory = Cpuset(container.cgroup);
    if (event.change == Change::kStopped || event.change == Change::kRemoved) {
      std::error_code ignored;  // it may never have been started
      std::filesystem::remove_all(directory, ignored);
      return;
    }
    if (event.change == Change::kStarted) std::filesystem::create_directories(directory);
    if (!std::filesystem::exists(directory)) return;
    SetCpus(container.cgroup, container.resources.cpuset_cpus());
    const std::string& mems = container.resources.cpuset_mems();
    Write(directory / "cpuset.mems", mems + "\n");
    Write(directory / (unified_ ? "cpuset.mems.effective" : "cpuset.effective_mems"),
          (mems.empty() ? "0-1" : mems) + "\n");
  }

  // A write by any program, and its effect in the kernel.
  void SetCpus(const std::string& cgroup, const std::string& cpus) const {
    const std::filesystem::path directory = Cpuset(cgroup);
    Write(directory / (unified_ ? "cpuset.cpus.effective" : "cpuset.effective_cpus"),
          Effective(cpus) + "\n");
    Write(directory / "cpuset.cpus", cpus + "\n");
  }
  // A cgroup above containers, with these CPUs. Does not change what the containers may use.
  void SetParent(const std::string& cgroup, const std::string& cpus) const {
    std::filesystem::create_directories(Cpuset(cgroup));
    SetCpus(cgroup, cpus);
    Write(Cpuset(cgroup) / "cpuset.mems", "0-1\n");
    Write(Cpuset(cgroup) / (unified_ ? "cpuset.mems.effective" : "cpuset.effective_mems"), "0-1\n");
  }
  // The cgroups above the containers have these CPUs from now on. Ends Follow.
  void SetParents(const std::string& cpus, const std::string& cgroup) {
    {
      const MutexLock lock(mutex_);
      all_cpus_ = cpus;
    }
    std::filesystem::remove(Cpuset(cgroup) /
                            (unified_ ? "cpuset.cpus.effective" : "cpuset.effective_cpus"));
    SetCpus(cgroup, CpusOf(cgroup));
  }
  std::string CpusOf(const std::string& cgroup) const {
    const Result<std::string> text = host::ReadFile(Cpuset(cgroup) / "cpuset.cpus");
    return text.ok() ? text->substr(0, text->find('\n')) : text.error().Text();
  }

  // From now on, writes have their effect at once, also those of others than this object, and the
  // cgroup has a thread: one that has just ended.
  void Follow(const std::string& cgroup) const {
    const std::filesystem::path directory = Cpuset(cgroup);
    const std::filesystem::path effective =
        directory / (unified_ ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
    std::filesystem::remove(effective);
    std::filesystem::create_hard_link(directory / "cpuset.cpus", effective);
    Write(directory / (unified_ ? "cgroup.threads" : "tasks"), "4194305\n");
  }

  void SetQuota(const std::string& cgroup, const std::string& quota) const {
    std::filesystem::create_directories(QuotaFile(cgroup).parent_path());
    // The rest of a longer text is not in the first line. A second call to cut it off could cut off
    // what alignd writes in between.
    Write(QuotaFile(cgroup), quota + "\n", /*cut=*/false);
  }
  std::string QuotaOf(const std::string& cgroup) const {
    const Result<std::string> text = host::ReadFile(QuotaFile(cgroup));
    return text.ok() ? text->substr(0, text->find('\n')) : text.error().Text();
  }

  std::filesystem::path QuotaFile(const std::string& cgroup) const {
    if (unified_) return root_ / cgroup.substr(1) / "cpu.max";
    return root_ / "cpu" / cgroup.substr(1) / "cpu.cfs_quota_us";
  }

 private:
  // Without a CPU that it may use, a cgroup of version 2 uses those of its parent.
  std::string Effective(const std::string& cpus) const {
    const MutexLock lock(mutex_);
    const CpuSet both = *CpuSet::Parse(cpus) & *CpuSet::Parse(all_cpus_);
    return both.empty() ? all_cpus_ : both.ToString();
  }
  std::filesystem::path Cpuset(const std::string& cgroup) const {
    return (unified_ ? root_ : root_ / "cpuset") / cgroup.substr(1);
  }
  // Replaces the text at once, as the kernel does: no reader sees a part of it.
  static void Write(const std::filesystem::path& path, const std::string& text, bool cut = true) {
    static Mutex mutex;  // a second writer in between would have its text cut off, or made longer
    const MutexLock lock(mutex);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    const auto size = static_cast<ssize_t>(text.size());
    const bool done = fd >= 0 && pwrite(fd, text.data(), text.size(), 0) == size &&
                      (!cut || ftruncate(fd, size) == 0);
    if (fd >= 0) close(fd);
    EXPECT_TRUE(done) << path;
  }

  const std::filesystem::path root_;
  const bool unified_;
  mutable Mutex mutex_;
  std::string all_cpus_ GUARDED_BY(mutex_);
};

}  // namespace alignd::daemon
