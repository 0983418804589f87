#include "daemon/config_changes.h"

#include <system_error>
#include <utility>

#include "control/readable.h"
#include "daemon/managed_node.h"
#include "daemon/moves_file.h"
#include "host/config_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

constexpr char kPending[] = "pending";

Error NoFile() {
  return {ErrorCode::kInvalidArgument, "alignd runs without a configuration file",
          "start alignd with --config"};
}

bool SaysTheSame(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const Result<host::ConfigFile> first = host::ParseConfigText(one, "the file");
  const Result<host::ConfigFile> second = host::ParseConfigText(other, "the former file");
  return first.ok() && second.ok() && first->config == second->config;
}

}  // namespace

ConfigChanges::ConfigChanges(const Options& options, std::function<void()> wake)
    : options_(options), wake_(std::move(wake)) {}

void ConfigChanges::Started(const StartConfig& config) {
  const MutexLock lock(mutex_);
  applied_ = config.text;
  repeats_moves_ = config.is_former;
}

Result<std::string> ConfigChanges::TextOf(const control::v1::ChangeRequest& request) const {
  if (!request.config().empty()) return request.config();
  if (options_.config.empty()) return NoFile();
  return host::ReadFile(options_.config);
}

Result<admission::Node> ConfigChanges::NodeOf(const Machine& machine, const std::string& text,
                                              const control::v1::ChangeRequest& request) const {
  const std::filesystem::path name =
      request.config().empty() ? options_.config : "the new configuration";
  Result<host::ConfigFile> file = host::ParseConfigText(text, name, request.fields());
  if (!file.ok()) return file.error();
  const std::filesystem::path with_fields = name.string() + " with the fields of the request";
  return MakeNode(options_, machine, std::move(file->config),
                  request.fields().empty() ? name : with_fields);
}

Result<admission::Node> ConfigChanges::NodeFor(const Machine& machine,
                                               const control::v1::ChangeRequest& request) const {
  const Result<std::string> text = TextOf(request);
  return text.ok() ? NodeOf(machine, *text, request) : text.error();
}

Result<admission::Node> ConfigChanges::NodeFor(const Machine& machine,
                                               const WantedChange& change) const {
  return change.text.ok() ? NodeOf(machine, *change.text, change.request) : change.text.error();
}

Result<uint64_t> ConfigChanges::Apply(const control::v1::ChangeRequest& request) {
  if (options_.config.empty()) return NoFile();
  if (!request.fields().empty()) {
    return Error{ErrorCode::kInvalidArgument, "single fields cannot be applied",
                 "write them to a KubeletConfiguration, and apply that"};
  }
  std::error_code code;
  if (!request.config().empty() && std::filesystem::is_symlink(options_.config, code)) {
    return Error{ErrorCode::kInvalidArgument,
                 options_.config.string() + " is a symbolic link, which alignd does not replace",
                 "change the file that it names, and run `alignctl apply` without --config"};
  }
  const MutexLock lock(mutex_);
  if (waiting_) {  // its caller has not asked for it, and may have ended
    outcomes_[waiting_->number].set_outcome("failed");
    outcomes_[waiting_->number].set_message(
        "another change was requested before this one began, and nothing of this one was applied: "
        "see what `alignctl plan` shows now, and repeat the command if it is still wanted");
  }
  for (const auto& [change, outcome] : outcomes_) {
    if (outcome.outcome() != kPending) continue;
    return Error{ErrorCode::kUnavailable, "another change of the configuration is under way",
                 "repeat the command when it has ended"};
  }
  waiting_ = WantedChange{.request = request, .number = ++last_, .applied = {}};
  outcomes_[last_].set_outcome(kPending);
  if (outcomes_.size() > kMaxKeptOutcomes) outcomes_.erase(outcomes_.begin());
  return last_;
}

bool ConfigChanges::MayMove(const control::v1::ChangeRequest& request) const {
  if (request.has_may_move()) return request.may_move();
  return request.config().empty() && options_.may_move == "if-needed";
}

void ConfigChanges::Refused(const Error& error) {
  const MutexLock lock(mutex_);
  if (!options_.config.empty()) not_applied_ = error;
}

control::v1::GetChangeResponse ConfigChanges::Outcome(uint64_t change) {
  control::v1::GetChangeResponse outcome;
  outcome.set_outcome("unknown");
  bool begins = false;
  {
    const MutexLock lock(mutex_);
    const auto found = outcomes_.find(change);
    if (found != outcomes_.end()) outcome = found->second;
    begins = waiting_ && waiting_->number == change;
  }
  if (begins) wake_();
  return outcome;
}

std::optional<Error> ConfigChanges::NotApplied() {
  std::optional<Error> why;
  std::string applied;
  {
    const MutexLock lock(mutex_);
    if (!not_applied_) return std::nullopt;
    why = not_applied_;
    applied = applied_;
  }
  const Result<std::string> text = host::ReadFile(options_.config);
  if (!text.ok() || !SaysTheSame(*text, applied)) return why;
  const MutexLock lock(mutex_);
  // Not that of a reload that has ended meanwhile.
  if (not_applied_ && not_applied_->message == why->message) not_applied_.reset();
  return std::nullopt;
}

WantedChange ConfigChanges::Take() {
  WantedChange change;
  {
    const MutexLock lock(mutex_);
    WantedChange of_file;
    of_file.request.set_may_move(options_.may_move == "if-needed" || repeats_moves_);
    change = std::exchange(waiting_, std::nullopt).value_or(of_file);
    change.applied = applied_;
  }
  change.text = TextOf(change.request);
  return change;
}

void ConfigChanges::Ended(const WantedChange& change, const Result<Done>& result) {
  // While containers have to move back, the repetition has not begun.
  const auto moves = MovesFile(options_.state_dir).Read();
  const MutexLock lock(mutex_);
  if (result.ok() && change.text.ok()) applied_ = *change.text;
  if (result.ok() || (change.number == 0 && moves.ok() && moves->empty())) repeats_moves_ = false;
  if (result.ok()) not_applied_.reset();
  // Without --config, there is no file that differs from what applies.
  const bool is_of_file = change.request.config().empty() && !options_.config.empty();
  if (!result.ok() && is_of_file) not_applied_ = result.error();
  if (change.number == 0) return;
  control::v1::GetChangeResponse& outcome = outcomes_[change.number];
  outcome.set_outcome(result.ok() ? "applied" : "failed");
  if (!result.ok()) outcome.set_message(control::Readable(result.error().Text()));
}

}  // namespace alignd::daemon
