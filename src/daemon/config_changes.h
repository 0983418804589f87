// The changes of the configuration that were requested while alignd runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"
#include "daemon/handover.h"
#include "daemon/options.h"
#include "sync/mutex.h"

namespace alignd::daemon {

// A change to carry out.
struct WantedChange {
  control::v1::ChangeRequest request;  // without a configuration: that of the file
  uint64_t number = 0;                 // 0: by SIGHUP
  std::string applied;                 // the text of the configuration that applies now
  // That of the wanted one. The file is read once: it may change while it is being applied.
  Result<std::string> text = std::string();
};

// Thread-safe. Outlives the Daemon, which is replaced by a change.
class ConfigChanges final : public control::ConfigChanger {
 public:
  // `wake` has the main thread call Take; it must not block.
  ConfigChanges(const Options& options, std::function<void()> wake);

  Result<admission::Node> NodeFor(const Machine& machine,
                                  const control::v1::ChangeRequest& request) const override;
  // As the configuration was read by Take.
  Result<admission::Node> NodeFor(const Machine& machine, const WantedChange& change) const;
  Result<uint64_t> Apply(const control::v1::ChangeRequest& request) override EXCLUDES(mutex_);
  bool MayMove(const control::v1::ChangeRequest& request) const override;
  void Refused(const Error& error) override EXCLUDES(mutex_);
  control::v1::GetChangeResponse Outcome(uint64_t change) override EXCLUDES(mutex_);
  std::optional<Error> NotApplied() override EXCLUDES(mutex_);

  // Call once the first Daemon has started, and before Take. `config`: Daemon::StartedWith. If it
  // is the former one, the repetition of the interrupted change may move containers, too.
  void Started(const StartConfig& config) EXCLUDES(mutex_);

  // The requested change that is to be carried out; without one, that of the file, as SIGHUP wants,
  // with --may-move, or to repeat one with moves.
  // Reads the file if the request has no configuration.
  // Call Ended before the next Take.
  WantedChange Take() EXCLUDES(mutex_);
  void Ended(const WantedChange& change, const Result<Done>& result) EXCLUDES(mutex_);

 private:
  // Errors: kInvalidArgument: there is no file; as host::ReadFile.
  Result<std::string> TextOf(const control::v1::ChangeRequest& request) const;
  Result<admission::Node> NodeOf(const Machine& machine, const std::string& text,
                                 const control::v1::ChangeRequest& request) const;

  static constexpr size_t kMaxKeptOutcomes = 64;

  const Options& options_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::optional<WantedChange> waiting_ GUARDED_BY(mutex_);
  std::string applied_ GUARDED_BY(mutex_);
  std::optional<Error> not_applied_ GUARDED_BY(mutex_);  // of the last reload of the file
  bool repeats_moves_ GUARDED_BY(mutex_) = false;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, control::v1::GetChangeResponse> outcomes_ GUARDED_BY(mutex_);
};

}  // namespace alignd::daemon
