// Writes states to the disk on a thread of its own, so that no decision waits for the disk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "allocation/allocation_events.h"
#include "allocation/checkpoint_store.h"
#include "allocation/kubelet_allocation.h"
#include "sync/task_queue.h"

namespace alignd::allocation {

// Thread-safe.
class StateWriter {
 public:
  // What the files are to contain. A value.
  struct Job {
    admission::NodeState state;
    std::shared_ptr<const checkpoint::Bindings> bindings =
        std::make_shared<const checkpoint::Bindings>();

    // Whether the files of both are the same.
    bool HasFilesOf(const Job& other) const;
    // Whether both have the same files as far as the pod is concerned.
    bool HasEntriesOf(const Job& other, const std::string& pod_uid) const;
  };
  // What a write has left in the files beside the job.
  enum class Leftover { kNothing, kBindings };  // of released pods: the last file failed
  // Errors: kIo; kInternal if a file could not be read back.
  using Written = std::function<void(const Job& job, const Result<Leftover>& result)>;

  // The references outlive the writer. `reply` runs a task on the owner's thread.
  StateWriter(const admission::Node& node, CheckpointStore& store, KubeletAllocation& kubelet,
              std::function<void(std::function<void()>)> reply,
              AllocationEvents& events = NoAllocationEvents());
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // Writes the files that differ. `done` runs on the owner's thread, once.
  // Errors, beside the disk's: kUnavailable after Stop.
  void Write(const Job& job, const Written& done);

  // Runs another task that may wait for the disk, behind the writes; not after Stop.
  void Run(std::function<void()> task) { disk_.Post(std::move(task)); }

  // Returns when everything is written, and `reply` was called for it.
  void Stop() { disk_.Stop(); }

  // How many tasks wait.
  size_t queued() const { return disk_.size(); }

  // The bindings as they are now.
  std::shared_ptr<const checkpoint::Bindings> bindings() const { return kubelet_.bindings(); }

 private:
  Result<Leftover> Save(const Job& job);

  const admission::Node& node_;
  CheckpointStore& store_;
  KubeletAllocation& kubelet_;
  const std::function<void(std::function<void()>)> reply_;
  AllocationEvents& events_;
  TaskQueue disk_{"disk"};
};

}  // namespace alignd::allocation
