// The file of the devices that are bound to kubelet-allocated ids.
#pragma once

#include <atomic>
#include <cstddef>
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
#include "host/file.h"
#include "sync/mutex.h"

namespace alignd::mirror {

// Changes are in memory until they are saved. One thread at a time changes, and one saves;
// `snapshot` is thread-safe.
class BindingTable {
 public:
  // Reads the file. A missing file means no bindings; it is written with the first binding. `calls`
  // outlives the table. A file of more than `max_file_bytes` is neither read nor written.
  // Errors: kCorrupt, naming file and remedy; kIo. The file is unchanged then.
  static Result<std::unique_ptr<BindingTable>> Load(
      std::filesystem::path file, host::FileCalls& calls = host::FileCalls::System(),
      size_t max_file_bytes = host::kMaxFileBytes);
  // Without bindings, and without the file: it was renamed after Load had failed.
  static std::unique_ptr<BindingTable> Absent(std::filesystem::path file,
                                              host::FileCalls& calls = host::FileCalls::System(),
                                              size_t max_file_bytes = host::kMaxFileBytes);
  BindingTable(const BindingTable&) = delete;
  BindingTable& operator=(const BindingTable&) = delete;

  // Replaces the bindings of these containers' resources. After an error nothing has changed.
  // Errors: kInvalidArgument if all bindings together would be longer than half of
  // `max_file_bytes`, with both sizes: while assignments are saved, the file has those before and
  // those after; kInternal if they would be read back as something else.
  Result<Done> Set(const checkpoint::Bindings& bindings);

  // Drops the pods' bindings.
  void Forget(const std::set<std::string>& pod_uids);

  // Drops the pod's bindings without an assignment in `state`.
  void DropUnassigned(const admission::NodeState& state, const std::string& pod_uid);

  // The same of all pods, and saves. They are left by a crash before the assignment was saved, or
  // after it was released. Before other threads use the table.
  // Errors: kIo.
  Result<Done> RetainAssigned(const admission::NodeState& state);

  // The file has these bindings afterwards, and those to which the state files may refer: of the
  // last Save, and of each SaveNew since.
  // Errors: kIo; kInvalidArgument if the file would be too long to be read back, kInternal if it
  // would be read back as something else; nothing is written then.
  Result<Done> SaveNew(const checkpoint::Bindings& now);
  // The state files refer to these only: the file has exactly these. Errors: as SaveNew.
  Result<Done> Save(const checkpoint::Bindings& now);

  // Whether the content of the file is unknown, because the last write failed. Thread-safe.
  bool IsUncertain() const { return is_uncertain_; }

  // Thread-safe.
  std::shared_ptr<const checkpoint::Bindings> snapshot() const;

  // Called after every change. Set before the first one.
  void OnChange(std::function<void()> observer) { observers_.push_back(std::move(observer)); }

 private:
  BindingTable(std::filesystem::path file, host::FileCalls& calls, size_t max_file_bytes,
               checkpoint::Bindings bindings, std::optional<std::string> text);

  Result<Done> Write(const checkpoint::Bindings& bindings);
  void Publish(checkpoint::Bindings bindings);

  const std::filesystem::path file_;
  host::FileCalls& calls_;
  const size_t max_file_bytes_;
  // Used by the thread that saves.
  std::optional<std::string> text_;         // of the file; nullopt: no file, or unknown
  checkpoint::Bindings kept_;               // the file has them all, whatever it has beside them
  bool is_absent_;                          // there was never anything to save
  std::atomic<bool> is_uncertain_ = false;  // written by the thread that saves
  std::vector<std::function<void()>> observers_;

  mutable Mutex mutex_;
  std::shared_ptr<const checkpoint::Bindings> bindings_ GUARDED_BY(mutex_);
};

}  // namespace alignd::mirror
