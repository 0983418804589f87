// The file of the devices that are bound to kubelet-allocated ids.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "host/durable_file.h"
#include "sync/mutex.h"

namespace alignd::mirror {

// Changes are in memory until they are saved. One thread at a time changes, and one saves;
// `snapshot` is thread-safe.
class BindingTable {
 public:
  // Reads the file. A missing file means no bindings; it is written with the first binding. `calls`
  // outlives the table.
  // Errors: kCorrupt, naming file and remedy; kIo. The file is unchanged then.
  static Result<std::unique_ptr<BindingTable>> Load(
      std::filesystem::path file, host::FileCalls& calls = host::FileCalls::System());
  BindingTable(const BindingTable&) = delete;
  BindingTable& operator=(const BindingTable&) = delete;

  // Replaces the bindings of these containers' resources. After an error nothing has changed.
  // Errors: kInvalidArgument if the file would be too long to be read back.
  Result<Done> Set(const checkpoint::Bindings& bindings);

  // Drops the pods' bindings.
  void Forget(const std::set<std::string>& pod_uids);

  // Drops the pod's bindings without an assignment in `state`.
  void DropUnassigned(const admission::NodeState& state, const std::string& pod_uid);

  // The same of all pods, and saves. They are left by a crash before the assignment was saved, or
  // after it was released. Before other threads use the table.
  // Errors: kIo.
  Result<Done> RetainAssigned(const admission::NodeState& state);

  // The file has these bindings afterwards, and those that it had of other containers' resources.
  // Errors: kIo.
  Result<Done> SaveNew(const checkpoint::Bindings& now);
  // The file has exactly these. Errors: kIo.
  Result<Done> Save(const checkpoint::Bindings& now);

  // Thread-safe.
  std::shared_ptr<const checkpoint::Bindings> snapshot() const;

  // Called after every change. Set before the first one.
  void OnChange(std::function<void()> observer) { observers_.push_back(std::move(observer)); }

 private:
  BindingTable(std::filesystem::path file, host::FileCalls& calls, checkpoint::Bindings bindings,
               std::optional<std::string> text);

  void Publish(checkpoint::Bindings bindings);

  const std::filesystem::path file_;
  host::FileCalls& calls_;
  // Used by the thread that saves.
  std::optional<std::string> text_;  // of the file; nullopt: no file, or unknown
  checkpoint::Bindings on_disk_;     // last saved, perhaps without success
  bool is_absent_;                   // there was never anything to save
  std::vector<std::function<void()>> observers_;

  mutable Mutex mutex_;
  std::shared_ptr<const checkpoint::Bindings> bindings_ GUARDED_BY(mutex_);
};

}  // namespace alignd::mirror
