#include "cli/kubelet_command.h"

#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/kubelet_report.h"
#include "cli/output.h"
#include "host/subprocess.h"
#include "kubelet/attachment.h"
#include "kubelet/plan.h"
#include "kubelet/setup.h"
#include "rpc/unix_socket.h"

namespace alignd::cli {
namespace {

using kubelet::Change;
using kubelet::Disagreement;

struct KubeletOptions {
  std::string root = "/";
  std::string unit = "kubelet.service";
  std::string output = "text";
  bool yes = false;
  bool restart = false;
  bool dry_run = false;
};

Result<int> KubeletStatus(const KubeletOptions& options, std::ostream& out) {
  const Result<KubeletNode> node = LookAtKubelet(options.root, options.unit);
  if (!node.ok()) return node.error();
  if (IsData(options.output)) {
    out << AsData(KubeletJson(*node), options.output);
  } else {
    PrintKubelet(*node, out);
  }
  const bool good = node->State() == "attached" && node->problems.empty() && !node->RestartNeeded();
  return good ? kSuccess : kFailure;
}

// The changes that are planned, with what the user has to know of them.
void ShowChanges(const KubeletOptions& options, const std::vector<Change>& changes,
                 const std::vector<Disagreement>& problems, const std::string& note,
                 std::ostream& out) {
  if (IsData(options.output)) {
    out << AsData(ChangesJson(changes, problems, note), options.output);
    return;
  }
  PrintProblems(problems, out);
  if (!note.empty()) out << note << '\n';
  for (const Change& change : changes) out << Diff(change);
}

// Whether the changes may be made.
Result<bool> MayChange(const KubeletOptions& options, std::ostream& out) {
  if (options.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    return Error{ErrorCode::kInvalidArgument, "standard input is no terminal: nothing was changed",
                 "give --yes to change these files"};
  }
  out << "Change these files? [y/N]\n" << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  out << "These files were not changed.\n";
  return false;
}

Result<Done> Systemctl(const std::vector<std::string>& arguments, std::ostream& out) {
  constexpr std::chrono::minutes kTimeout{2};  // a unit has 90 s to stop
  std::vector<std::string> command = {"systemctl"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::string shown = command.front();
  for (const std::string& argument : arguments) shown += " " + argument;
  const Result<host::ProcessResult> ran = host::RunProcess(command, kTimeout);
  if (ran.ok()) out << ran->output;
  if (ran.ok() && ran->exit_status == 0) return Done{};
  const std::string why =
      ran.ok() ? "exit status " + std::to_string(ran->exit_status) : ran.error().message;
  return Error{ErrorCode::kIo,
               "`" + shown + "` failed (" + why + "); the kubelet's files stay as they are",
               "see in the journal why (journalctl -u kubelet), then run it again"};
}

Result<Done> RestartKubelet(const KubeletOptions& options, std::ostream& out) {
  if (!options.restart) {
    out << "Now run: systemctl daemon-reload && systemctl restart " << options.unit << '\n';
    return Done{};
  }
  out << std::flush;
  const Result<Done> reloaded = Systemctl({"daemon-reload"}, out);
  if (!reloaded.ok()) return reloaded;
  const Result<Done> restarted = Systemctl({"restart", options.unit}, out);
  if (restarted.ok()) out << "The kubelet was restarted.\n";
  return restarted;
}

bool Listens(const std::string& endpoint) {
  const Result<std::string> path = rpc::SocketPath(endpoint);
  return path.ok() && rpc::IsServed(*path);
}

Error NotListening(const std::string& endpoint) {
  return {ErrorCode::kUnavailable,
          "alignd does not listen on " + endpoint + ": the kubelet could not start",
          "start alignd first: systemctl enable --now alignd.socket alignd.service"};
}

// An attach that was interrupted is undone first. false: the user does not want that.
Result<bool> UndoInterrupted(const KubeletOptions& options, const KubeletNode& node,
                             std::ostream& out) {
  const auto undo = PlanDetach(node.files, node.record->changes, node.record->endpoint);
  if (!undo.ok()) return undo.error();
  const std::string note = "An earlier change was interrupted. It is undone first";
  if (options.dry_run) {
    ShowChanges(options, *undo, {},
                note + "; then `attach` shows the changes that it makes itself:", out);
    return false;
  }
  ShowChanges(options, *undo, {}, note + ":", out);
  if (!undo->empty()) {
    Result<bool> may = MayChange(options, out);
    if (!may.ok() || !*may) return may;
  }
  const Result<Done> undone = kubelet::Detach(node.files, *node.record, *undo);
  if (!undone.ok()) return undone.error();
  out << "The interrupted change was undone.\n";
  return true;
}

Result<Done> RequireAttachable(const KubeletNode& node) {
  if (node.kubelet.distribution) {
    return Error{ErrorCode::kInvalidArgument,
                 "this node runs " + node.kubelet.distribution->name +
                     ": alignctl does not change its files",
                 node.kubelet.distribution->by_hand};
  }
  for (const Disagreement& problem : node.problems) {
    if (problem.dangerous) {
      return Error{ErrorCode::kInvalidArgument, "refused: " + problem.what, problem.remedy};
    }
  }
  return Done{};
}

// No file is to be changed. The kubelet is restarted if that is asked for.
Result<int> StayAttached(const KubeletOptions& options, const KubeletNode& node, bool listens,
                         std::ostream& out) {
  ShowChanges(options, {}, node.problems,
              "The kubelet is attached already: " + DescribeSource(node.kubelet) + " is " +
                  node.kubelet.endpoint,
              out);
  if (options.dry_run || (!options.restart && !node.RestartNeeded())) return kSuccess;
  if (options.restart && !listens) return NotListening(node.alignd.listen);
  const Result<Done> restarted = RestartKubelet(options, out);
  if (!restarted.ok()) return restarted.error();
  return kSuccess;
}

Result<int> AttachKubelet(const KubeletOptions& options, std::ostream& out) {
  Result<KubeletNode> node = LookAtKubelet(options.root, options.unit);
  if (!node.ok()) return node.error();
  if (node->record && !node->record->complete) {
    const Result<bool> undone = UndoInterrupted(options, *node, out);
    if (!undone.ok()) return undone.error();
    if (!*undone) return options.dry_run ? kSuccess : kFailure;
    node = LookAtKubelet(options.root, options.unit);
    if (!node.ok()) return node.error();
  }
  if (const Result<Done> may = RequireAttachable(*node); !may.ok()) return may.error();
  const bool listens = options.root != "/" || Listens(node->alignd.listen);
  if (node->kubelet.unit && node->Attached()) return StayAttached(options, *node, listens, out);
  const auto changes = PlanAttach(node->files, node->kubelet, node->alignd.listen);
  if (!changes.ok()) return changes.error();
  ShowChanges(options, *changes, node->problems, {}, out);
  if (options.dry_run) return kSuccess;
  if (options.restart && !listens) return NotListening(node->alignd.listen);
  const Result<bool> may = MayChange(options, out);
  if (!may.ok()) return may.error();
  if (!*may) return kFailure;
  const Result<Done> attached = kubelet::Attach(node->files, node->record,
                                                {.complete = true,
                                                 .endpoint = node->alignd.listen,
                                                 .runtime = node->kubelet.endpoint,
                                                 .changes = *changes});
  if (!attached.ok()) return attached.error();
  out << "The files are changed. Their copies are in " << kubelet::kRecordDirectory
      << "/before; `alignctl kubelet detach` restores them.\n";
  if (!listens) out << "Note: " << NotListening(node->alignd.listen).Text() << '\n';
  const Result<Done> restarted = RestartKubelet(options, out);
  if (!restarted.ok()) return restarted.error();
  return kSuccess;
}

Result<int> NothingToDetach(const KubeletOptions& options, std::ostream& out) {
  const Result<KubeletNode> node = LookAtKubelet(options.root, options.unit);
  if (!node.ok()) return node.error();
  if (node->kubelet.unit && !node->kubelet.distribution && node->Attached()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the kubelet was attached by hand: " + DescribeSource(node->kubelet),
                 "undo that change by hand, and restart the kubelet"};
  }
  ShowChanges(options, {}, {}, "The kubelet was not attached by alignctl: nothing to do.", out);
  return kSuccess;
}

// Reads no more of the kubelet than the record and the files in it: a kubelet that is removed, or
// whose configuration is damaged, can be detached, too.
Result<int> DetachKubelet(const KubeletOptions& options, std::ostream& out) {
  const kubelet::FileView files(options.root);
  const Result<std::optional<kubelet::Record>> record = kubelet::ReadRecord(files);
  if (!record.ok()) return record.error();
  if (!*record) return NothingToDetach(options, out);
  const auto undo = PlanDetach(files, (*record)->changes, (*record)->endpoint);
  if (!undo.ok()) return undo.error();
  ShowChanges(options, *undo, {}, {}, out);
  if (options.dry_run) return kSuccess;
  const Result<bool> may = MayChange(options, out);
  if (!may.ok()) return may.error();
  if (!*may) return kFailure;
  const Result<Done> detached = kubelet::Detach(files, **record, *undo);
  if (!detached.ok()) return detached.error();
  out << "The files are restored.\n";
  const Result<Done> restarted = RestartKubelet(options, out);
  if (!restarted.ok()) return restarted.error();
  return kSuccess;
}

using KubeletRun = Result<int> (*)(const KubeletOptions&, std::ostream&);

CLI::App* AddOne(CLI::App& group, const std::shared_ptr<KubeletOptions>& options, Action& action,
                 const char* name, const char* what, KubeletRun run) {
  CLI::App* const command = group.add_subcommand(name, what);
  command
      ->add_option("--root", options->root, "Root directory of the node, such as that of an image")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--unit", options->unit, "systemd unit of the kubelet")
      ->type_name("UNIT")
      ->capture_default_str();
  AddExamples(*command, {std::string("alignctl kubelet ") + name});
  command->callback([options, &action, run] {
    if (options->restart && options->root != "/") {
      throw CLI::ValidationError("--restart", "cannot be used with --root");
    }
    action = [options, run](std::ostream& out) { return run(*options, out); };
  });
  return command;
}

void AddChanging(CLI::App& command, const std::shared_ptr<KubeletOptions>& options) {
  command.add_flag("--yes,-y", options->yes, "Do not ask before the files are changed");
  CLI::Option* const dry_run =
      command.add_flag("--dry-run", options->dry_run, "Only show what would be changed");
  command.add_flag("--restart", options->restart,
                   "Restart the kubelet afterwards; only without --root");
  AddOutputOption(command, options->output);
  command.get_option("--output")->needs(dry_run);
}

}  // namespace

void AddKubeletCommand(CLI::App& app, Action& action) {
  CLI::App* const group =
      app.add_subcommand("kubelet", "Let the kubelet of this node use alignd, or undo that");
  group->require_subcommand(1);
  const auto options = std::make_shared<KubeletOptions>();
  CLI::App* const status =
      AddOne(*group, options, action, "status",
             "Show which endpoint the kubelet uses, which file sets it, and whether the kubelet "
             "and alignd agree; exit status 1 if something is to do",
             &KubeletStatus);
  AddOutputOption(*status, options->output);
  AddChanging(
      *AddOne(*group, options, action, "attach",
              "Set the kubelet's container runtime endpoint to alignd's socket", &AttachKubelet),
      options);
  AddChanging(*AddOne(*group, options, action, "detach",
                      "Restore the files that `attach` has changed", &DetachKubelet),
              options);
}

}  // namespace alignd::cli
