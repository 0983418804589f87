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

// One thread at a time, except for `snapshot`.
class BindingTable {
 public:
  // Reads the file. A missing file means no bindings; it is written with the first binding. `calls`
  // outlives the table.
  // Errors: kCorrupt, naming file and remedy; kIo. The file is unchanged then.
  static Result<std::unique_ptr<BindingTable>> Load(
      std::filesystem::path file, host::FileCalls& calls = host::FileCalls::System());
  BindingTable(const BindingTable&) = delete;
  BindingTable& operator=(const BindingTable&) = delete;

  // Replaces the bindings of these containers' resources, and saves them. After an error nothing
  // has changed.
  // Errors: kIo.
  Result<Done> Set(const checkpoint::Bindings& bindings);

  // Drops the pods' bindings, even if that cannot be saved. The file then has them until the next
  // save, or until RetainAssigned after a restart.
  // Errors: kIo.
  Result<Done> Forget(const std::set<std::string>& pod_uids);

  // Drops bindings without an assignment in `state`. They are left by a crash before the assignment
  // was saved, or after it was released.
  // Errors: kIo.
  Result<Done> RetainAssigned(const admission::NodeState& state);

  // Thread-safe.
  std::shared_ptr<const checkpoint::Bindings> snapshot() const;

  // Called after every change. Set before the first one.
  void OnChange(std::function<void()> observer) { observers_.push_back(std::move(observer)); }

 private:
  BindingTable(std::filesystem::path file, host::FileCalls& calls, checkpoint::Bindings bindings,
               std::optional<std::string> text);

  Result<Done> Save(const checkpoint::Bindings& bindings);
  void Publish(checkpoint::Bindings bindings);

  const std::filesystem::path file_;
  host::FileCalls& calls_;
  std::optional<std::string> text_;  // of the file; nullopt: no file, or unknown
  std::vector<std::function<void()>> observers_;

  mutable Mutex mutex_;
  std::shared_ptr<const checkpoint::Bindings> bindings_ GUARDED_BY(mutex_);
};

}  // namespace alignd::mirror
