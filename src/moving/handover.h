// A running node moves from the kubelet's managers to alignd, or back, without a drain.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/checkpoint/convert.h"
#include "alignd/config/kubelet_config.h"
#include "allocation/checkpoint_store.h"
#include "daemon/options.h"
#include "kubelet/agreement.h"
#include "kubelet/file_view.h"
#include "kubelet/plan.h"
#include "kubelet/setup.h"
#include "moving/move_plan.h"
#include "moving/services.h"
#include "moving/steps.h"

namespace alignd::moving {

inline constexpr char kAligndService[] = "alignd.service";
inline constexpr char kAligndSocket[] = "alignd.socket";

struct HandoverRequest {
  std::string root = "/";  // of the node
  std::string unit = "kubelet.service";
  std::filesystem::path node;  // a scenario's `node` instead of the machine below `root`
  std::filesystem::path cgroup_root = "/sys/fs/cgroup";
  bool devices = false;  // to alignd: import the devices, too
  // To the kubelet: the form of its files; nullopt: that of alignd's compatibility.
  std::optional<checkpoint::KubeletRelease> release;
};

// Takes over those flags of alignd's unit that take precedence over its configuration. A value with
// which alignd would not start is left out.
void TakeFlags(const kubelet::AligndSetup& alignd, daemon::Options& options);

// Where a kubelet that is started so has its state files.
allocation::StatePaths KubeletPathsOf(const kubelet::FileView& files, const kubelet::Setup& setup);

// The kubelet and alignd as their files configure them.
struct BothSetups {
  kubelet::FileView files;
  kubelet::Setup kubelet;
  kubelet::AligndSetup alignd;

  // Errors: files that cannot be read; kInvalidArgument: there is no such unit, or a distribution
  // starts the kubelet in a way of its own.
  static Result<BothSetups> Find(const HandoverRequest& request);

  daemon::Options Options(const HandoverRequest& request) const;  // alignd's
  allocation::StatePaths KubeletPaths() const;
};

// All that is known before anything is changed.
struct PreparedHandover {
  std::vector<kubelet::Change> changes;  // of the kubelet's files
  MovePlan plan;                         // of the state files, as they are now
  std::vector<Step> steps;
  std::vector<std::string> by_hand;  // what remains for the operator afterwards, one sentence each
};

// Restores the files of a handover, an import or an export that was interrupted. false: none was.
// Errors: kUnavailable: `dry_run`, or a kubelet or alignd runs; those of Recover and of BothSetups.
Result<bool> RecoverInterrupted(const HandoverRequest& request, Services& services, bool dry_run);

void PrintHandover(const PreparedHandover& handover, std::ostream& out);

// Both check everything that can be checked while kubelet and alignd run, and change nothing. The
// steps check again what can have changed since. After a handover that was interrupted when its
// files were written, only the remaining steps are prepared. `services` outlives the result.
// Errors: those of the checks; kInvalidArgument with all problems and what to do.
Result<PreparedHandover> PrepareToAlignd(const HandoverRequest& request, Services& services);
Result<PreparedHandover> PrepareToKubelet(const HandoverRequest& request, Services& services);

}  // namespace alignd::moving
