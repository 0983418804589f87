#include "moving/handover.h"

#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "alignd/config/pod_policy_switch.h"
#include "daemon/change_undo.h"
#include "host/durable_file.h"
#include "kubelet/words.h"
#include "moving/file_switch.h"

namespace alignd::moving {

Result<BothSetups> BothSetups::Find(const HandoverRequest& request) {
  BothSetups both{kubelet::FileView(request.root), {}, {}};
  Result<kubelet::Setup> setup = FindSetup(both.files, request.unit);
  if (!setup.ok()) return setup.error();
  both.kubelet = *std::move(setup);
  if (both.kubelet.distribution) {
    return Error{ErrorCode::kInvalidArgument,
                 "this node runs " + both.kubelet.distribution->name +
                     ": alignctl does not change its files",
                 "do the steps of docs/moving.md by hand; for the endpoint: " +
                     both.kubelet.distribution->by_hand};
  }
  if (!both.kubelet.unit) {
    return Error{ErrorCode::kNotFound, "there is no unit " + request.unit,
                 "give the name of the kubelet's unit (--unit)"};
  }
  Result<kubelet::AligndSetup> alignd = FindAligndSetup(both.files);
  if (!alignd.ok()) return alignd.error().In("alignd's configuration");
  both.alignd = *std::move(alignd);
  if (both.alignd.has_unit) return both;
  return Error{ErrorCode::kNotFound, std::string("there is no unit ") + kAligndService,
               "install alignd first: see docs/installing.md"};
}

void TakeFlags(const kubelet::AligndSetup& alignd, daemon::Options& options) {
  for (const Compatibility release :
       {Compatibility::k1_20, Compatibility::k1_36, Compatibility::k1_37}) {
    if (alignd.compatibility == ToString(release)) options.compatibility = release;
  }
  if (alignd.pod_policies.empty()) return;
  Result<std::set<PodPolicy>> policies = ParsePodPolicies(alignd.pod_policies);
  if (policies.ok()) options.pod_policies = *std::move(policies);
}

allocation::StatePaths KubeletPathsOf(const kubelet::FileView& files, const kubelet::Setup& setup) {
  const std::string directory =
      kubelet::LastFlag(setup.words, "--root-dir").value_or("/var/lib/kubelet");
  // The kubelet has this path compiled in.
  return {files.OnThisMachine(directory), files.OnThisMachine("/var/lib/kubelet/device-plugins")};
}

daemon::Options BothSetups::Options(const HandoverRequest& request) const {
  daemon::Options options;
  options.root = request.root;
  options.node = request.node;
  if (!alignd.config_file.empty()) options.config = files.OnThisMachine(alignd.config_file);
  options.state_dir = files.OnThisMachine(alignd.state_dir);
  options.device_plugin_dir = files.OnThisMachine(alignd.device_plugin_dir);
  TakeFlags(alignd, options);
  return options;
}

allocation::StatePaths BothSetups::KubeletPaths() const { return KubeletPathsOf(files, kubelet); }

Result<bool> RecoverInterrupted(const HandoverRequest& request, Services& services, bool dry_run) {
  const Result<BothSetups> both = BothSetups::Find(request);
  if (!both.ok()) return both.error();
  const daemon::Options options = both->Options(request);
  const std::filesystem::path record = options.state_dir / daemon::ChangeUndo::kFileName;
  std::error_code fault;
  if (const Result<Done> none = RequireNoMoves(options.state_dir); !none.ok()) return none.error();
  if (!std::filesystem::exists(record, fault)) return false;
  const std::string what =
      "an earlier handover, move or change of the configuration was interrupted (" +
      record.string() + ")";
  if (dry_run) {
    return Error{ErrorCode::kUnavailable, what,
                 "run this command without --dry-run: it restores the files first, and asks before "
                 "it begins"};
  }
  if (both->kubelet.process) {
    return Error{
        ErrorCode::kUnavailable,
        what + ", and a kubelet runs (process " + std::to_string(both->kubelet.process->pid) + ")",
        "stop it (systemctl stop " + request.unit + "), then repeat the handover"};
  }
  const Result<AligndSide> alignd = AligndSide::Make(options);
  if (!alignd.ok()) return alignd.error().In("alignd's configuration");
  const Result<host::DirectoryLock> lock = host::LockDirectory(options.state_dir);
  if (!lock.ok()) return lock.error().In(what);
  const Result<bool> recovered = Recover(options.state_dir, alignd->config_text);
  if (!recovered.ok()) return recovered.error();
  if (Result<Done> read = services.ReloadUnits(); !read.ok()) return read.error();
  return recovered;
}

void PrintHandover(const PreparedHandover& handover, std::ostream& out) {
  for (const kubelet::Change& change : handover.changes) out << Diff(change);
  PrintPlan(handover.plan, out);
  out << "steps:\n";
  PrintSteps(handover.steps, out);
  if (!handover.by_hand.empty()) out << "afterwards, by hand:\n";
  for (const std::string& sentence : handover.by_hand) out << "  " << sentence << '\n';
}

}  // namespace alignd::moving
