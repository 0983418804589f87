#include "moving/handover.h"

#include <ostream>

#include "kubelet/words.h"

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

daemon::Options BothSetups::Options(const HandoverRequest& request) const {
  daemon::Options options;
  options.root = request.root;
  options.node = request.node;
  if (!alignd.config_file.empty()) options.config = files.OnThisMachine(alignd.config_file);
  options.state_dir = files.OnThisMachine(alignd.state_dir);
  options.device_plugin_dir = files.OnThisMachine(alignd.device_plugin_dir);
  for (const Compatibility release :
       {Compatibility::k1_20, Compatibility::k1_36, Compatibility::k1_37}) {
    if (alignd.compatibility == ToString(release)) options.compatibility = release;
  }
  return options;
}

allocation::StatePaths BothSetups::KubeletPaths() const {
  const std::string directory =
      kubelet::LastFlag(kubelet.words, "--root-dir").value_or("/var/lib/kubelet");
  // The kubelet has this path compiled in.
  return {files.OnThisMachine(directory), files.OnThisMachine("/var/lib/kubelet/device-plugins")};
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
