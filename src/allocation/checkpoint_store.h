// Loads and durably saves the kubelet's three state files. The only code that writes in the state
// directory.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "host/durable_file.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// Where the files lie. A value.
struct StatePaths {
  std::filesystem::path state_dir;          // cpu_manager_state, memory_manager_state
  std::filesystem::path device_plugin_dir;  // kubelet_internal_checkpoint

  std::filesystem::path CpuFile() const { return state_dir / "cpu_manager_state"; }
  std::filesystem::path MemoryFile() const { return state_dir / "memory_manager_state"; }
  std::filesystem::path DeviceFile() const {
    return device_plugin_dir / "kubelet_internal_checkpoint";
  }
};

// Thread-safe. One thread saves: whoever starts us, then the decision thread. The caller holds the
// lock of the state directory.
class CheckpointStore {
 public:
  // `calls` outlives the store.
  explicit CheckpointStore(StatePaths paths, host::FileCalls& calls = host::FileCalls::System());

  // What the files say, checked against machine and configuration; a missing file, or one that says
  // nothing, means the initial state. Makes missing directories, removes what a crash has left
  // half-written and, once all is well, writes the files that are missing, so that a directory that
  // cannot be written is found now.
  // Errors: kCorrupt or kInvalidArgument with the kubelet's text, naming the file and the remedy;
  // kIo. A file that was there has not been touched then.
  // Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go, restoreState;
  // memorymanager/state/state_checkpoint.go; devicemanager/manager.go, readCheckpoint.
  // Differs: a damaged device file is an error too. The kubelet logs it and starts with all devices
  // free, also those that running containers hold, and hands them out again. So is a file in which
  // two pods hold the same CPU or device. NUMA nodes may have more or less memory than they had
  // (memorymanager::FitToMachine).
  Result<admission::NodeState> Load(const admission::Node& node);

  // Writes the files whose text changed since they were last read or written, and those whose last
  // write failed. Everything is on the disk when this returns without an error.
  // Errors: kIo. Each file then has its old or its new text, not all of them the same.
  Result<Done> Save(const admission::Node& node, const admission::NodeState& state);

  // A state file with another text than the one that was read or written here last.
  struct ForeignFile {
    std::filesystem::path path;
    std::string text;
  };
  // Those of CPUs and memory, which somebody else writes as well. The next save writes them in any
  // case.
  std::vector<ForeignFile> FindForeignFiles();
  // Whether a file may not be ours: the last save has failed, or somebody else was found to have
  // written there.
  bool IsUncertain() const;

 private:
  struct File {
    std::filesystem::path path;
    std::optional<std::string> text;  // what is on the disk; nullopt: nothing, or unknown
  };

  Result<Done> PrepareDirectories() REQUIRES(mutex_);
  // The text of the file, nullopt if there is none.
  static Result<std::optional<std::string>> Read(File& file);
  Result<Done> Write(File& file, const std::string& text);
  Result<Done> WriteMissing(const admission::Node& node, const admission::NodeState& state)
      REQUIRES(mutex_);
  std::vector<std::pair<File*, std::string>> Texts(const admission::Node& node,
                                                   const admission::NodeState& state)
      REQUIRES(mutex_);
  Result<Done> LoadCpu(const admission::Node& node, cpumanager::CpuState& state) REQUIRES(mutex_);
  Result<Done> LoadMemory(const admission::Node& node, memorymanager::MemoryState& state)
      REQUIRES(mutex_);
  Result<Done> LoadDevices(devicemanager::DeviceState& state) REQUIRES(mutex_);

  const StatePaths paths_;
  host::FileCalls& calls_;
  mutable Mutex mutex_;
  File cpu_ GUARDED_BY(mutex_);
  File memory_ GUARDED_BY(mutex_);
  File devices_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
