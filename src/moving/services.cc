#include "moving/services.h"

#include <chrono>
#include <thread>
#include <vector>

#include "host/subprocess.h"

namespace alignd::moving {
namespace {

constexpr std::chrono::minutes kSystemctlTimeout{2};  // a unit has 90 s to stop
constexpr std::chrono::seconds kSettleTime{3};

// Of `systemctl stop`, for a unit that is not there. Source: man 1 systemctl, exit status.
constexpr int kNotLoaded = 5;

Result<host::ProcessResult> AskSystemctl(std::vector<std::string> arguments) {
  std::string shown = "systemctl";
  for (const std::string& argument : arguments) shown += " " + argument;
  arguments.insert(arguments.begin(), "systemctl");
  Result<host::ProcessResult> ran = host::RunProcess(arguments, kSystemctlTimeout);
  if (!ran.ok()) return ran.error().In("`" + shown + "`");
  while (ran->output.ends_with('\n')) ran->output.pop_back();
  return ran;
}

Error Failed(const std::string& command, const std::string& unit, const host::ProcessResult& ran) {
  return {ErrorCode::kIo,
          "`" + command + "` failed (exit status " + std::to_string(ran.exit_status) + ")" +
              (ran.output.empty() ? "" : ": " + ran.output),
          unit.empty()
              ? "correct the units that it names, then repeat the handover"
              : "see in the journal why (journalctl -u " + unit + "), then repeat the handover"};
}

// "active", "inactive", "activating" and the like.
Result<std::string> StateOf(const std::string& unit) {
  const Result<host::ProcessResult> ran = AskSystemctl({"is-active", unit});
  if (!ran.ok()) return ran.error();
  for (const char* const state : {"active", "reloading", "refreshing", "inactive", "failed",
                                  "activating", "deactivating", "maintenance", "unknown"}) {
    if (ran->output == state) return ran->output;
  }
  return Failed("systemctl is-active " + unit, unit, *ran);
}

}  // namespace

Result<bool> Systemd::IsActive(const std::string& unit) {
  const Result<std::string> state = StateOf(unit);
  if (!state.ok()) return state.error();
  return *state == "active" || *state == "reloading" || *state == "refreshing";
}

Result<bool> Systemd::IsStopped(const std::string& unit) {
  const Result<std::string> state = StateOf(unit);
  if (!state.ok()) return state.error();
  return *state == "inactive" || *state == "failed" || *state == "unknown";
}

Result<Done> Systemd::Start(const std::string& unit) {
  const Result<host::ProcessResult> ran = AskSystemctl({"start", unit});
  if (!ran.ok()) return ran.error();
  if (ran->exit_status != 0) return Failed("systemctl start " + unit, unit, *ran);
  // The kubelet counts as active before it has read its configuration and its files.
  std::this_thread::sleep_for(kSettleTime);
  return Done{};
}

Result<Done> Systemd::Stop(const std::string& unit) {
  const Result<host::ProcessResult> ran = AskSystemctl({"stop", unit});
  if (!ran.ok()) return ran.error();
  if (ran->exit_status == 0 || ran->exit_status == kNotLoaded) return Done{};
  return Failed("systemctl stop " + unit, unit, *ran);
}

Result<Done> Systemd::ReloadUnits() {
  const Result<host::ProcessResult> ran = AskSystemctl({"daemon-reload"});
  if (!ran.ok()) return ran.error();
  return ran->exit_status == 0 ? Result<Done>(Done{}) : Failed("systemctl daemon-reload", "", *ran);
}

namespace {

Error NoServiceHere() {
  return {ErrorCode::kInternal, "there are no services below another root directory",
          "use --dry-run with --root"};
}

}  // namespace

Result<bool> NoServices::IsActive(const std::string& /*unit*/) { return false; }
Result<bool> NoServices::IsStopped(const std::string& /*unit*/) { return true; }
Result<Done> NoServices::Start(const std::string& /*unit*/) { return NoServiceHere(); }
Result<Done> NoServices::Stop(const std::string& /*unit*/) { return NoServiceHere(); }
Result<Done> NoServices::ReloadUnits() { return NoServiceHere(); }

}  // namespace alignd::moving
