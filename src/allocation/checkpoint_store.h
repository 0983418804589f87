// Loads and durably saves the kubelet's three state files, and alignd's own files cpu_originals and
// cpu_shares.
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
#include "allocation/bad_state.h"
#include "allocation/originals_file.h"
#include "allocation/shares_file.h"
#include "host/durable_file.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// Where the files lie. A value.
struct StatePaths {
  std::filesystem::path state_dir;          // all but the next
  std::filesystem::path device_plugin_dir;  // kubelet_internal_checkpoint

  std::filesystem::path CpuFile() const { return state_dir / "cpu_manager_state"; }
  std::filesystem::path MemoryFile() const { return state_dir / "memory_manager_state"; }
  std::filesystem::path OriginalsFile() const { return state_dir / checkpoint::kOriginalsFileName; }
  std::filesystem::path SharesFile() const { return state_dir / checkpoint::kSharesFileName; }
  std::filesystem::path DeviceFile() const {
    return device_plugin_dir / "kubelet_internal_checkpoint";
  }
};

// Why a file cannot be used. The error names it, too.
struct FileProblem {
  std::filesystem::path file;
  Error error;
};

// Thread-safe. One thread saves at a time: first the thread that starts alignd, then the thread
// of StateWriter. The caller has locked the state directory.
class CheckpointStore {
 public:
  // `calls` outlives the store.
  explicit CheckpointStore(StatePaths paths, host::FileCalls& calls = host::FileCalls::System());

  // Reads the files and checks them against machine and configuration. A missing or empty file
  // means the initial state. Makes missing directories and removes temporary files of a crash. Then
  // writes the missing files, so that a read-only directory is found now.
  // A file that cannot be used ends the start, or with kRebuild is set aside and counts as missing:
  // see findings(). A sound file of another policy or of other reservations for the system always
  // ends it: that is a change of the configuration.
  // Errors: kCorrupt (of a file that cannot be used) or kInvalidArgument (another policy, other
  // reservations) with the kubelet's text, naming the file and the remedy; kIo. Existing files are
  // unchanged then. Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go,
  // restoreState; memorymanager/state/state_checkpoint.go; devicemanager/manager.go,
  // readCheckpoint. Differs: a damaged device file is an error, too. The kubelet logs it and starts
  // with all devices free, also those of running containers, and assigns them again. A file in
  // which two pods have the same CPU or device is also an error. NUMA nodes may have more or less
  // memory than before (memorymanager::FitToMachine). cpu_originals: as OriginalsFile::Load.
  // cpu_shares: as SharesFile::Load; without its CPU file, it is not used. Without pods that can
  // ask for it, it is removed.
  Result<admission::NodeState> Load(const admission::Node& node,
                                    OnBadState on_bad = OnBadState::kRefuse);

  // The same with the problems of all files, of which Load gives the first. nullopt: there are
  // some.
  std::optional<admission::NodeState> Load(const admission::Node& node,
                                           std::vector<FileProblem>& problems,
                                           OnBadState on_bad = OnBadState::kRefuse);

  // What the last Load found.
  StateFindings findings() const;

  // Writes the files whose text changed since they were last read or written, and those whose last
  // write failed. Everything is on the disk when this returns without an error. cpu_originals is
  // written first with what is new, and last without what is gone; cpu_shares before the CPU file.
  // Errors: kIo; each file then has its old or its new text. kInvalidArgument if a text is too long
  // to be read by Load, kInternal if Load would read something else; nothing is written then.
  Result<Done> Save(const admission::Node& node, const admission::NodeState& state);

  // Writes the CPU and the device file again as Load has read them, so that a start finds out
  // whether the next save succeeds: on a full disk, a write needs space, also of the same text.
  // Errors: kIo; the files have their text all the same. The next save repeats the write.
  Result<Done> WriteAgain();

  // A state file with another text than the one that was read or written here last.
  struct ForeignFile {
    std::filesystem::path path;
    std::string text;
  };
  // The CPU and memory files only: another program may write these. The next save replaces them,
  // and also a file that has been removed or is no regular file any more.
  std::vector<ForeignFile> FindForeignFiles();
  // Whether a file's content is uncertain: the last save failed, or FindForeignFiles found it.
  bool IsUncertain() const;

 private:
  struct File {
    std::filesystem::path path;
    std::optional<std::string> text;  // of the file; nullopt: no file, or unknown
  };

  Result<Done> PrepareDirectories() REQUIRES(mutex_);
  // Sets the file aside if `loaded` says that it cannot be used and `on_bad` allows it.
  Result<Done> OrSetAside(const Result<Done>& loaded, const std::filesystem::path& file,
                          OnBadState on_bad) REQUIRES(mutex_);
  // The text of the file, nullopt if there is none.
  static Result<std::optional<std::string>> Read(File& file);
  Result<Done> Write(File& file, const std::string& text);
  // Whether Load would read this text of the file as `state`. A text that does not change is not
  // checked again.
  Result<Done> RequireReadBack(const File& file, const std::string& text,
                               const admission::NodeState& state) const REQUIRES(mutex_);
  // `has_cpus`: the CPUs of the state are those of the CPU file, which may have to be written anew.
  Result<Done> WriteMissing(const admission::Node& node, const admission::NodeState& state,
                            bool has_cpus) REQUIRES(mutex_);
  // The CPU file comes first.
  std::vector<std::pair<File*, std::string>> Texts(const admission::Node& node,
                                                   const admission::NodeState& state)
      REQUIRES(mutex_);
  // Whether the state is that of the file.
  Result<bool> LoadCpu(const admission::Node& node, OnBadState on_bad, cpumanager::CpuState& state)
      REQUIRES(mutex_);
  Result<Done> LoadMemory(const admission::Node& node, memorymanager::MemoryState& state)
      REQUIRES(mutex_);
  Result<Done> LoadDevices(devicemanager::DeviceState& state) REQUIRES(mutex_);

  const StatePaths paths_;
  host::FileCalls& calls_;
  mutable Mutex mutex_;
  File cpu_ GUARDED_BY(mutex_);
  std::string cpu_read_ GUARDED_BY(mutex_);  // its text as LoadCpu has read it; empty: no file
  File memory_ GUARDED_BY(mutex_);
  File devices_ GUARDED_BY(mutex_);
  OriginalsFile originals_ GUARDED_BY(mutex_);
  SharesFile shares_ GUARDED_BY(mutex_);
  StateFindings findings_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
