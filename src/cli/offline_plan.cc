#include "cli/offline_plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/transition.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "control/change_report.h"
#include "daemon/change_undo.h"
#include "daemon/config_changes.h"
#include "daemon/options.h"
#include "host/durable_file.h"
#include "host/file.h"
#include "kubelet/agreement.h"
#include "kubelet/file_view.h"
#include "moving/handover.h"
#include "moving/move_plan.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

Result<daemon::Options> DaemonOptionsFor(const OfflinePlanOptions& stated) {
  const kubelet::FileView files(stated.root);
  const Result<kubelet::AligndSetup> found = kubelet::FindAligndSetup(files);
  if (!found.ok()) return found.error().In("alignd's configuration");
  daemon::Options options;
  options.root = stated.root;
  options.node = stated.node;
  options.state_dir = stated.state_dir;
  options.device_plugin_dir = stated.device_plugin_dir;
  moving::TakeFlags(*found, options);
  options.config = stated.current_config;
  if (stated.current_config.empty() && !found->config_file.empty()) {
    options.config = files.OnThisMachine(found->config_file);
  }
  return options;
}

// The files are those of a process that does not run and has ended in order.
Result<Done> RequireAtRest(const fs::path& state_dir) {
  std::error_code fault;
  if (!fs::is_directory(state_dir, fault)) {
    return Error{ErrorCode::kNotFound, state_dir.string() + " is not a directory that can be read",
                 "give alignd's state directory (--state-dir), or run it as root"};
  }
  if (fs::exists(state_dir / daemon::ChangeUndo::kFileName, fault)) {
    return Error{ErrorCode::kUnavailable,
                 "a change of the files was interrupted (" +
                     (state_dir / daemon::ChangeUndo::kFileName).string() +
                     "): which of them apply is decided when they are restored",
                 "start alignd, or repeat the handover, import or export; then plan again"};
  }
  if (!fs::exists(state_dir / "alignd.lock", fault)) return Done{};
  const Result<host::DirectoryLock> lock = host::LockDirectory(state_dir);
  if (lock.ok()) return Done{};
  if (lock.error().code != ErrorCode::kUnavailable) return lock.error();
  return Error{ErrorCode::kUnavailable, lock.error().message,
               "leave out --state-dir: `alignctl plan` then asks the alignd that runs"};
}

Result<Done> RequireFiles(const admission::Node& node, const allocation::StatePaths& paths) {
  std::vector<fs::path> needed;
  if (node.cpu) needed.push_back(paths.CpuFile());
  if (node.memory) needed.push_back(paths.MemoryFile());
  for (const fs::path& file : needed) {
    std::error_code fault;
    if (fs::exists(file, fault)) continue;
    return Error{ErrorCode::kNotFound,
                 file.string() +
                     " is missing: what running containers are assigned is only known from their "
                     "marks at the runtime",
                 "start alignd, which rebuilds the file, then run `alignctl plan` without "
                 "--state-dir"};
  }
  return Done{};
}

Result<admission::NodeState> LoadState(const admission::Node& node,
                                       const allocation::StatePaths& paths,
                                       std::vector<std::string>& notes) {
  moving::MovePlan read;
  const std::vector<allocation::FileProblem> problems = moving::LoadFiles(node, paths, read);
  notes = std::move(read.notes);
  if (problems.empty()) return std::move(read.state);
  Error error = problems.front().error;
  error.remedy =
      "give the configuration with which alignd ran (--current-config); if a file is "
      "damaged or of another machine, start alignd, which rebuilds it from the running "
      "containers, then run `alignctl plan` without --state-dir";
  return error;
}

// What a daemon knows and files do not.
std::vector<std::string> LimitsOf(const daemon::Options& options) {
  std::vector<std::string> limits = {
      "planned from the state files: pods that have ended since alignd stopped count as running, "
      "and what only marks of running containers say is not considered"};
  const Result<std::string> written = host::ReadFile(options.state_dir / allocation::kBootFileName);
  const Result<std::string> running = allocation::RunningBoot(options.root);
  if (written.ok() && running.ok() && !running->empty() && *written != *running) {
    limits.push_back("the files are from before the last boot: no container of theirs runs");
  }
  return limits;
}

// What the plan means for a container.
bool IsSame(const admission::ContainerTransition& a, const admission::ContainerTransition& b) {
  return a.fate == b.fate && a.after.exclusive == b.after.exclusive &&
         a.after.memory_nodes == b.after.memory_nodes;
}

constexpr char kAskTheDaemon[] =
    ": start alignd, which knows it from the pod's sandbox, then run `alignctl plan` without "
    "--state-dir";

// Refuses the containers to which something else happens in `other`, the plan if pods have chosen
// `policy`.
void RefuseUndecided(const admission::Transition& other, NumaTopologyPolicy policy,
                     admission::Transition& plan) {
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    admission::ContainerTransition& container = plan.containers[i];
    if (container.fate == admission::Fate::kRefused) continue;
    if (IsSame(container, other.containers[i])) continue;
    container.fate = admission::Fate::kRefused;
    container.why = "undecided: the files do not say whether its pod asks for numaTopologyPolicy " +
                    std::string(ToString(policy)) +
                    " by annotation, or has it by default, which would change the plan" +
                    kAskTheDaemon;
  }
  for (const std::string& fault : other.faults) {
    if (std::ranges::find(plan.faults, fault) == plan.faults.end()) plan.faults.push_back(fault);
  }
}

// Refuses all containers that move, if at least so many pods do.
void RefuseMoves(size_t pods, const std::string& why, admission::Transition& plan) {
  std::set<std::string> moving;
  for (const admission::ContainerTransition& container : plan.containers) {
    if (container.fate == admission::Fate::kMoves) moving.insert(container.key.pod_uid);
  }
  if (moving.size() < pods) return;
  for (admission::ContainerTransition& container : plan.containers) {
    if (container.fate != admission::Fate::kMoves) continue;
    container.fate = admission::Fate::kRefused;
    container.why = "undecided: " + why + kAskTheDaemon;
  }
}

// With topology scope pod, the policy of a pod changes when it is placed, and with that where
// others are: with several pods that move, not only all having the same policy is to be asked for.
void RefuseMovesInAnyOrder(admission::Transition& plan) {
  RefuseMoves(2,
              "the files do not say which numaTopologyPolicy the pods that move ask for by "
              "annotation or have by default, on which the order of the moves depends",
              plan);
}

// Where a container moves to depends on what its pod asks for of its CPUs, and other pods of
// theirs.
void RefuseMovesByCpuPolicies(const admission::Node& before, const admission::Node& after,
                              admission::Transition& plan) {
  for (const PodPolicy policy : {PodPolicy::kCpuBindPolicy, PodPolicy::kCpuExclusivePolicy}) {
    const bool may_matter = PodPoliciesAnywhere(before.config).contains(policy) &&
                            PodPoliciesAnywhere(after.config).contains(policy);
    if (!may_matter) continue;
    RefuseMoves(1,
                "the files do not say which " + std::string(ToString(policy)) +
                    " the pods ask for by annotation or have by default, on which depends where "
                    "containers move",
                plan);
  }
}

// The node whose pods may all choose what those of any namespace may: the files do not have the
// namespaces.
admission::Node WithoutNamespaces(admission::Node node) {
  node.config.pod_policies = PodPoliciesAnywhere(node.config);
  node.config.namespace_policies.clear();
  return node;
}

// Whether the state has what all containers of the shared pool request that stay on one NUMA node.
bool KnowsShares(const allocation::StatePaths& paths, const admission::NodeState& state) {
  const Result<std::string> text = host::ReadFile(paths.SharesFile());
  if (!text.ok()) return false;
  const Result<checkpoint::SharesCheckpoint> shares = checkpoint::ParseSharesCheckpoint(*text);
  const Result<std::string> cpus = host::ReadFile(paths.CpuFile());
  return shares.ok() && shares->shares == state.cpu.shares && cpus.ok() &&
         !shares->IsOfAnotherCpuFile(*cpus);
}

// If it is not known what backs the requests of containers of the shared pool that stay on one NUMA
// node: a move can take it, and so can a change that leaves the pool fewer CPUs.
void RefuseByShares(const admission::Node& before, const admission::Node& after,
                    const admission::NodeState& state, admission::Transition& plan) {
  if (!admission::MayShareNodes(before) || !admission::MayShareNodes(after)) return;
  const std::string why =
      "podPolicies has sharedNUMANode, and there is no file cpu_shares that fits the other ones, "
      "which says which containers of the shared pool stay on one NUMA node";
  RefuseMoves(1, why, plan);
  const CpuSet left = plan.next.cpu.SavedDefaultSet() - after.cpu->reserved;
  const CpuSet taken = state.cpu.SavedDefaultSet() - before.cpu->reserved - left;
  if (taken.empty()) return;
  plan.faults.push_back("undecided: the change takes CPUs " + taken.ToString() +
                        " from the shared pool, and " + why + kAskTheDaemon);
}

// The plan that is right whatever policies the running pods have by annotation or by default
// (admission/own_policy.h), which the files do not have. Where their policies matter, the plan is
// refused. Containers are decided about in an order that, with scope container, does not depend on
// the policies, each with what those before it have left: if all pods having the same policy makes
// no difference, neither does any mixture.
admission::Transition PlanForAnyPolicies(const admission::Node& before,
                                         const admission::Node& after,
                                         const admission::NodeState& state, bool knows_shares,
                                         admission::MayMove may_move) {
  admission::Transition plan = admission::PlanTransition(before, after, state, may_move);
  if (!plan.IsAdmitted()) return plan;
  const admission::Node free_before = WithoutNamespaces(before);
  const admission::Node free_after = WithoutNamespaces(after);
  bool may_have_chosen = false;
  for (const NumaTopologyPolicy policy :
       {NumaTopologyPolicy::kBestEffort, NumaTopologyPolicy::kRestricted,
        NumaTopologyPolicy::kSingleNumaNode}) {
    std::map<std::string, PodPolicies> asked;
    for (const std::string& uid : admission::PodsIn(state)) asked[uid].numa_topology = policy;
    const admission::NodeState chosen = admission::WithPolicies(free_before, state, asked);
    const bool matters = std::ranges::any_of(asked, [&](const auto& pod) {
      return admission::OwnPolicy(free_after, chosen, pod.first).has_value();
    });
    if (!matters) continue;
    may_have_chosen = true;
    RefuseUndecided(admission::PlanTransition(free_before, free_after, chosen, may_move), policy,
                    plan);
  }
  const bool places_pods = after.topology.scope() == TopologyManagerScope::kPod;
  if (may_have_chosen && places_pods) RefuseMovesInAnyOrder(plan);
  RefuseMovesByCpuPolicies(before, after, plan);
  if (!knows_shares) RefuseByShares(before, after, state, plan);
  if (plan.IsAdmitted()) return plan;
  plan.shared_after = plan.shared_before;
  for (admission::ContainerTransition& container : plan.containers) {
    container.after = container.before;
  }
  plan.next = state;
  return plan;
}

}  // namespace

Result<control::v1::ChangeResponse> PlanFromFiles(const OfflinePlanOptions& stated,
                                                  const control::v1::ChangeRequest& request) {
  const Result<daemon::Options> options = DaemonOptionsFor(stated);
  if (!options.ok()) return options.error();
  if (Result<Done> rests = RequireAtRest(options->state_dir); !rests.ok()) return rests.error();
  const Result<moving::AligndSide> alignd = moving::AligndSide::Make(*options);
  if (!alignd.ok()) return alignd.error().In("the present configuration");
  const admission::Node& before = alignd->node;
  const allocation::StatePaths paths{options->state_dir, options->DevicePluginDir()};
  if (Result<Done> there = RequireFiles(before, paths); !there.ok()) return there.error();
  std::vector<std::string> notes;
  const Result<admission::NodeState> state = LoadState(before, paths, notes);
  if (!state.ok()) return state.error();
  const daemon::ConfigChanges changes(*options, [] {});
  const Result<admission::Node> after = changes.NodeFor(before.machine, request);
  if (!after.ok()) return after.error();
  const auto may_move =
      request.may_move() ? admission::MayMove::kIfNeeded : admission::MayMove::kNever;
  control::v1::ChangeResponse report = control::ReportTransition(
      before, *after,
      PlanForAnyPolicies(before, *after, *state, KnowsShares(paths, *state), may_move),
      /*names=*/{});
  for (std::string& note : notes) *report.add_notes() = std::move(note);
  for (std::string& limit : LimitsOf(*options)) *report.add_notes() = std::move(limit);
  return report;
}

}  // namespace alignd::cli
