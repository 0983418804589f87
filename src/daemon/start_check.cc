#include "daemon/start_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/base/result.h"
#include "daemon/change_undo.h"
#include "daemon/facts.h"
#include "daemon/log_capture.h"
#include "daemon/managed_node.h"
#include "daemon/moves_file.h"
#include "daemon/reload.h"
#include "daemon/saved_state.h"
#include "daemon/start_warnings.h"
#include "host/file.h"
#include "host/rehearsed_files.h"
#include "rpc/unix_socket.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

void AddProblem(const std::string& flag, const std::string& value, const Error& error,
                StartCheck& check) {
  check.problems.push_back({"", flag, value, error});
}

// A socket that alignd makes: of its flag, at the endpoint.
void CheckSocket(const std::string& flag, const std::string& endpoint, host::FileCalls& calls,
                 StartCheck& check) {
  check.sockets.push_back({flag, endpoint});
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (!path.ok()) return AddProblem(flag, endpoint, path.error(), check);
  const fs::path parent = fs::path(*path).parent_path();
  const Result<Done> made = host::MakeDirectory(parent, calls);
  if (!made.ok()) return AddProblem(flag, endpoint, made.error(), check);
  struct stat status {};
  if (lstat(path->c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    AddProblem(flag, endpoint,
               {ErrorCode::kInvalidArgument, "exists and is not a socket",
                "remove the file, or choose another path"},
               check);
    return;
  }
  std::error_code fault;
  if (fs::is_directory(parent, fault) && access(parent.c_str(), W_OK | X_OK) != 0) {
    AddProblem(flag, endpoint,
               {ErrorCode::kIo,
                "write to " + parent.string() + ": " + std::generic_category().message(errno),
                "run as root, or allow this user to write there"},
               check);
  }
}

// An endpoint that alignd connects to. Whether it is served is not part of a start.
void CheckEndpoint(const std::string& flag, const std::string& endpoint, StartCheck& check) {
  check.sockets.push_back({flag, endpoint});
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (!path.ok()) AddProblem(flag, endpoint, path.error(), check);
}

void CheckDirectory(const std::string& flag, const fs::path& directory, host::FileCalls& calls,
                    StartCheck& check) {
  const Result<Done> made = host::MakeDirectory(directory, calls);
  if (!made.ok()) AddProblem(flag, directory, made.error(), check);
}

void CheckPaths(const Options& options, host::FileCalls& calls, StartCheck& check) {
  CheckSocket("--listen", options.listen, calls, check);
  CheckSocket("--control-socket", options.ControlSocket(), calls, check);
  CheckSocket("--pod-resources-socket", options.PodResourcesSocket(), calls, check);
  const fs::path plugins = fs::absolute(options.DevicePluginDir());
  CheckSocket("--device-plugin-dir", (plugins / "kubelet.sock").string(), calls, check);
  CheckEndpoint("--runtime-endpoint", options.runtime_endpoint, check);
  if (!options.pods_api_endpoint.empty()) {
    CheckEndpoint("--pods-api-endpoint", options.pods_api_endpoint, check);
  }
  CheckDirectory("--plugins-registry", options.PluginsRegistry(), calls, check);
  if (options.mirror) {
    CheckDirectory("--kubelet-plugins-registry", options.kubelet_plugins_registry, calls, check);
  }
  // Two paths that are both wrong have been named above.
  const Result<Done> own = RequireOwnSockets(options);
  if (!own.ok() && check.problems.empty()) {
    AddProblem("--listen", options.listen, own.error(), check);
  }
}

// The process that the lock of a state directory names, if it runs. Takes no lock.
std::string OwnerOf(const fs::path& state_dir) {
  constexpr size_t kMaxPidText = 32;
  const Result<std::string> pid = host::ReadFile(state_dir / "alignd.lock", kMaxPidText);
  if (!pid.ok() || pid->empty() || pid->find_first_not_of("0123456789") != std::string::npos) {
    return "";
  }
  const Result<std::string> name = host::ReadFile(fs::path("/proc") / *pid / "comm", kMaxPidText);
  return name.ok() && name->starts_with("alignd") ? *pid : "";
}

// The record of a change is there.
Error Unfinished(const Options& options) {
  const Result<std::vector<admission::CpuMove>> moves = MovesFile(options.state_dir).Read();
  if (moves.ok() && !moves->empty()) {
    return {ErrorCode::kUnavailable,
            "alignd has ended while it moved containers for a change of its configuration, or it "
            "is moving them: a start begins with the configuration from before, so the state files "
            "are not checked",
            "start alignd, which moves the containers back, and then repeats the change that the "
            "configuration asks for"};
  }
  return {ErrorCode::kUnavailable,
          "alignd has ended in the middle of a change of its configuration, or it is changing it: "
          "a start first restores the former files, so the state files are not checked",
          "start alignd, which then repeats the change that the configuration asks for; if "
          "`alignctl handover`, `state import` or `state export` was interrupted, repeat that "
          "instead"};
}

void CheckState(const Options& options, host::FileCalls& calls, StartCheck& check) {
  check.state_owner = OwnerOf(options.state_dir);
  if (HasUnfinishedChange(options)) {
    check.warnings.push_back(
        {options.state_dir / ChangeUndo::kFileName, "", "", Unfinished(options)});
    return;
  }
  if (!check.node) {
    CheckDirectory("--state-dir", options.state_dir, calls, check);
    return;
  }
  allocation::StateFindings findings;
  std::optional<SavedState> saved =
      LoadState(options, *check.node, check.problems, findings, calls);
  check.saved = saved ? SavedStateCheck::kUsable : SavedStateCheck::kUnusable;
  if (!saved) return;
  check.state = std::move(saved->state);
  for (const allocation::BadFile& bad : findings.bad) {
    check.warnings.push_back(
        {bad.file,
         "",
         "",
         {ErrorCode::kCorrupt, bad.why + "; a start keeps the file under another name",
          "start alignd, which rebuilds what the file had from the running containers; or restore "
          "the file from a copy first"}});
  }
  if (saved->bypass->state() == reconcile::Bypass::State::kOff) return;
  check.warnings.push_back({options.state_dir / reconcile::Bypass::kFileName,
                            "",
                            "",
                            {ErrorCode::kInvalidArgument,
                             "the bypass is on: alignd relays all calls and assigns nothing",
                             "run `alignctl bypass off` when alignd runs"}});
}

}  // namespace

int StartCheck::ExitStatus() const {
  if (!problems.empty()) return 1;
  return warnings.empty() ? 0 : 2;
}

StartCheck CheckStart(const Options& options, CheckScope scope) {
  const auto sink = std::make_shared<WarningSink>();
  const LogCapture capture(sink);
  host::RehearsedFiles calls;
  StartCheck check;
  check.config = options.config;
  check.state_dir = options.state_dir;
  if (scope.paths) CheckPaths(options, calls, check);
  CheckedNode checked = CheckNode(options);
  check.settings = SettingsOf(options, checked.config);
  check.node = std::move(checked.node);
  for (StartProblem& problem : checked.problems) check.problems.push_back(std::move(problem));
  const auto add_warnings = [&check](std::vector<StartProblem> warnings) {
    for (StartProblem& warning : warnings) check.warnings.push_back(std::move(warning));
  };
  if (check.node) {
    add_warnings(FindPolicyWarnings(options, *check.node));
    add_warnings(FindGateWarnings(options, check.node->config));
  }
  if (scope.paths) add_warnings(FindDirectoryWarnings(options));
  if (scope.state) CheckState(options, calls, check);
  for (std::string& text : sink->Take()) {
    check.warnings.push_back({"",
                              "",
                              "",
                              {ErrorCode::kInvalidArgument, std::move(text),
                               "search for this text in docs/troubleshooting.md"}});
  }
  return check;
}

}  // namespace alignd::daemon
