// Which device stands behind each id that the kubelet counted: kept, and on the disk.
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

namespace alignd::allocation {

// One thread at a time, but for `snapshot`.
class BindingTable {
 public:
  // Reads the file; one that is not there means no bindings. Nothing is written before there are
  // any. `calls` outlives the table.
  // Errors: kCorrupt, naming file and remedy; kIo. The file has not been touched then.
  static Result<std::unique_ptr<BindingTable>> Load(
      std::filesystem::path file, host::FileCalls& calls = host::FileCalls::System());
  BindingTable(const BindingTable&) = delete;
  BindingTable& operator=(const BindingTable&) = delete;

  // Replaces the bindings of these containers' resources. They are on the disk when this returns
  // without an error; after one nothing has changed.
  // Errors: kIo.
  Result<Done> Set(const checkpoint::Bindings& bindings);

  // Forgets the pods' bindings, whether that can be saved or not: what is on the disk then still
  // has them, until the next save or until RetainHeld of our next life.
  // Errors: kIo.
  Result<Done> Forget(const std::set<std::string>& pod_uids);

  // Forgets bindings of what nobody holds: a crash came before the grant was saved, or after it was
  // given back.
  // Errors: kIo.
  Result<Done> RetainHeld(const admission::NodeState& state);

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
  std::optional<std::string> text_;  // what is on the disk; nullopt: nothing, or unknown
  std::vector<std::function<void()>> observers_;

  mutable Mutex mutex_;
  std::shared_ptr<const checkpoint::Bindings> bindings_ GUARDED_BY(mutex_);
};

}  // namespace alignd::allocation
