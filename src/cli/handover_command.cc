#include "cli/handover_command.h"

#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "cli/output.h"
#include "host/durable_file.h"
#include "kubelet/attachment.h"
#include "moving/handover.h"

namespace alignd::cli {
namespace {

struct HandoverOptions {
  moving::HandoverRequest request;
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string release;
  bool yes = false;
  bool dry_run = false;
};

using Prepare = Result<moving::PreparedHandover> (*)(const moving::HandoverRequest&,
                                                     moving::Services&);

Result<bool> MayHandOver(const HandoverOptions& options, std::ostream& out) {
  if (options.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    return Error{ErrorCode::kInvalidArgument, "standard input is no terminal: nothing was changed",
                 "give --yes to carry these steps out"};
  }
  out << "Carry these steps out? [y/N]\n" << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  out << "Nothing was changed.\n";
  return false;
}

// A closed terminal or an interrupt key would leave the kubelet stopped. The steps end by
// themselves.
void IgnoreSignals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
  }
}

// For the time of a handover: two at once would start and stop the same services.
Result<host::DirectoryLock> LockHandover() {
  if (Result<Done> made = host::MakeDirectory(kubelet::kRecordDirectory); !made.ok()) {
    return made.error();
  }
  Result<host::DirectoryLock> lock = host::LockDirectory(kubelet::kRecordDirectory);
  if (lock.ok() || lock.error().code != ErrorCode::kUnavailable) return lock;
  return Error{ErrorCode::kUnavailable, "another handover runs: " + lock.error().message,
               "wait until it has ended"};
}

Result<int> HandOver(HandoverOptions options, Prepare prepare, std::ostream& out) {
  options.request.cgroup_root = options.cgroup_root;
  options.request.release = checkpoint::ParseKubeletRelease(options.release);
  moving::Systemd systemd;
  moving::NoServices none;
  const bool is_here = options.request.root == "/";
  moving::Services& services = is_here ? static_cast<moving::Services&>(systemd) : none;
  std::optional<host::DirectoryLock> lock;
  if (!options.dry_run) {
    Result<host::DirectoryLock> locked = LockHandover();
    if (!locked.ok()) return locked.error();
    lock = *std::move(locked);
  }
  const Result<bool> recovered = RecoverInterrupted(options.request, services, options.dry_run);
  if (!recovered.ok()) return recovered.error();
  if (*recovered) out << "An earlier handover was interrupted. Its files were restored first.\n";
  const Result<moving::PreparedHandover> handover = prepare(options.request, services);
  if (!handover.ok()) return handover.error();
  PrintHandover(*handover, out);
  const Result<Done> lawful = RequireNoProblem(handover->plan, "the handover");
  if (!lawful.ok()) return lawful.error();
  if (options.dry_run) return kSuccess;
  const Result<bool> may = MayHandOver(options, out);
  if (!may.ok()) return may.error();
  if (!*may) return kFailure;
  IgnoreSignals();
  const Result<Done> done = RunSteps(handover->steps, out);
  if (!done.ok()) return done.error();
  out << "The handover is done.\n";
  return kSuccess;
}

void AddDirection(CLI::App& group, Action& action, const char* name, const char* what,
                  Prepare prepare) {
  const auto options = std::make_shared<HandoverOptions>();
  CLI::App* const command = group.add_subcommand(name, what);
  command
      ->add_option("--root", options->request.root,
                   "Root directory of the node; another one than / only with --dry-run")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--unit", options->request.unit, "systemd unit of the kubelet")
      ->type_name("UNIT")
      ->capture_default_str();
  command->add_option("--cgroup-root", options->cgroup_root, "Mount point of the cgroups")
      ->type_name("DIR")
      ->capture_default_str();
  if (prepare == &moving::PrepareToAlignd) {
    command->add_flag("--devices", options->request.devices,
                      "Import the kubelet's device allocations, too: the device plugins move to "
                      "alignd at the same time, and alignd has no mirror");
  } else {
    command
        ->add_option("--compatibility", options->release,
                     "The kubelet release that is to read the files; if not given, that of "
                     "alignd's configuration")
        ->check(CLI::IsMember({"1.20", "1.24", "1.36", "1.36-pod-level", "1.37"}));
  }
  command->add_flag("--yes,-y", options->yes, "Do not ask before the steps are carried out");
  command->add_flag("--dry-run", options->dry_run, "Only check, and show the steps");
  AddExamples(*command, {std::string("alignctl handover ") + name + " --dry-run",
                         std::string("alignctl handover ") + name});
  command->callback([options, prepare, &action] {
    if (options->request.root != "/" && !options->dry_run) {
      throw CLI::ValidationError("--root", "needs --dry-run: the services are those of /");
    }
    action = [options, prepare](std::ostream& out) { return HandOver(*options, prepare, out); };
  });
}

}  // namespace

void AddHandoverCommand(CLI::App& app, Action& action) {
  CLI::App* const group = app.add_subcommand(
      "handover",
      "Move this node from the kubelet's managers to alignd, or back, without a drain; if a step "
      "fails, all are undone");
  group->require_subcommand(1);
  AddDirection(
      *group, action, "to-alignd",
      "Stop the kubelet, move its state files to alignd, attach it with the policies none, "
      "and start both",
      &moving::PrepareToAlignd);
  AddDirection(*group, action, "to-kubelet",
               "Stop both, move alignd's state files to the kubelet, detach it, and start it",
               &moving::PrepareToKubelet);
}

}  // namespace alignd::cli
