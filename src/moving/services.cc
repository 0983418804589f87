#include "moving/services.h"

#include <chrono>
#include <thread>
#include <vector>

#include "host/subprocess.h"

namespace alignd::moving {
namespace {

constexpr std::chrono::minutes kSystemctlTimeout{2};  // a unit has 90 s to stop
constexpr std::chrono::seconds kSettleTime{3};

Result<Done> RunSystemctl(std::vector<std::string> arguments) {
  std::string shown = "systemctl";
  for (const std::string& argument : arguments) shown += " " + argument;
  const std::string unit = arguments.back();
  arguments.insert(arguments.begin(), "systemctl");
  const Result<host::ProcessResult> ran = host::RunProcess(arguments, kSystemctlTimeout);
  if (!ran.ok()) return ran.error().In("`" + shown + "`");
  if (ran->exit_status == 0) return Done{};
  return Error{ErrorCode::kIo,
               "`" + shown + "` failed (exit status " + std::to_string(ran->exit_status) + ")" +
                   (ran->output.empty() ? "" : ": " + ran->output),
               "see in the journal why (journalctl -u " + unit + "), then repeat the handover"};
}

}  // namespace

Result<bool> Systemd::IsActive(const std::string& unit) {
  const Result<host::ProcessResult> ran =
      host::RunProcess({"systemctl", "is-active", "--quiet", unit}, kSystemctlTimeout);
  if (!ran.ok()) return ran.error().In("`systemctl is-active`");
  return ran->exit_status == 0;
}

Result<Done> Systemd::Start(const std::string& unit) {
  const Result<Done> started = RunSystemctl({"start", unit});
  // The kubelet counts as active before it has read its configuration and its files.
  if (started.ok()) std::this_thread::sleep_for(kSettleTime);
  return started;
}

Result<Done> Systemd::Stop(const std::string& unit) { return RunSystemctl({"stop", unit}); }

Result<Done> Systemd::ReloadUnits() { return RunSystemctl({"daemon-reload"}); }

}  // namespace alignd::moving
