#include "control/change_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "control/config_report.h"
#include "control/readable.h"

namespace alignd::control {
namespace {

const char* NameOf(admission::Fate fate) {
  switch (fate) {
    case admission::Fate::kStays:
      return "stays";
    case admission::Fate::kMoves:
      return "moves";
    case admission::Fate::kRefused:
      break;
  }
  return "refused";
}

}  // namespace

Error NotAdoptedYet() {
  return {ErrorCode::kUnavailable,
          "the runtime has not been listed since the start of alignd: what the running containers "
          "have is not known yet",
          "repeat the command in some seconds; if this stays, see `alignctl status`"};
}

Result<v1::ChangeResponse> ReportChange(const ReportSources& sources,
                                        const v1::ChangeRequest& request) {
  if (sources.has_adopted && !sources.has_adopted()) return NotAdoptedYet();
  const Result<admission::Node> after = sources.changer->NodeFor(sources.node.machine, request);
  if (!after.ok()) return after.error();
  const auto snapshot = sources.allocation.snapshot();
  // They have CPUs of two places for the moment: a plan for these would say nothing.
  if (!snapshot->state.cpu.moving.empty()) {
    return Error{ErrorCode::kUnavailable,
                 "containers are being moved for a change of the configuration",
                 "repeat the command when they are on their CPUs; if this stays, see `alignctl "
                 "status`"};
  }
  const auto may_move =
      request.may_move() ? admission::MayMove::kIfNeeded : admission::MayMove::kNever;
  const auto plan = [&](admission::MayMove moves) {
    return admission::PlanTransition(sources.node, *after, snapshot->state, moves);
  };
  v1::ChangeResponse report =
      ReportTransition(sources.node, *after, plan(may_move), AllPodNames(sources));
  if (!report.admitted() && !request.may_move() &&
      plan(admission::MayMove::kIfNeeded).IsAdmitted()) {
    report.add_notes("with --may-move if-needed, containers move, and the change can be applied");
  }
  return report;
}

v1::ChangeResponse ReportTransition(const admission::Node& before, const admission::Node& after,
                                    const admission::Transition& transition,
                                    const PodNames& names) {
  v1::ChangeResponse report;
  report.set_admitted(transition.IsAdmitted());
  for (const std::string& fault : transition.faults) report.add_faults(Readable(fault));
  for (const std::string& note : transition.notes) report.add_notes(note);
  report.set_shared_before(transition.shared_before.ToString());
  report.set_shared_after(transition.shared_after.ToString());
  const std::vector<v1::Setting> was = ReportFields(before.config, {});
  const std::vector<v1::Setting> is = ReportFields(after.config, {});
  for (size_t i = 0; i < was.size(); ++i) {
    if (was[i].value() == is[i].value()) continue;
    v1::ChangedSetting& setting = *report.add_settings();
    setting.set_name(was[i].name());
    setting.set_before(was[i].value());
    setting.set_after(is[i].value());
  }
  for (const admission::ContainerTransition& container : transition.containers) {
    v1::ContainerChange& change = *report.add_containers();
    change.set_pod_uid(Readable(container.key.pod_uid));
    const auto name = names.find(container.key.pod_uid);
    if (name != names.end()) change.set_pod(Readable(name->second));
    change.set_container(Readable(container.key.container));
    change.set_fate(NameOf(container.fate));
    change.set_cpus_before(container.before.exclusive.ToString());
    change.set_cpus_after(container.after.exclusive.ToString());
    for (const int node : container.before.memory_nodes) change.add_memory_nodes(node);
    change.set_why(Readable(container.why));
  }
  std::ranges::stable_sort(*report.mutable_containers(), {}, &v1::ContainerChange::pod);
  return report;
}

std::string WhyRefused(const v1::ChangeResponse& change) {
  std::string why;
  for (const std::string& fault : change.faults()) why += (why.empty() ? "" : "; ") + fault;
  for (const v1::ContainerChange& container : change.containers()) {
    if (container.fate() != "refused") continue;
    why += (why.empty() ? "" : "; ") +
           (container.pod().empty() ? container.pod_uid() : container.pod()) + " " +
           container.container() + ": " + container.why();
  }
  return why;
}

}  // namespace alignd::control
