// Rebuilds the assignments that the state files lack, from the containers of the runtime.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "allocation/bad_state.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/runtime_client.h"

namespace alignd::reconcile {

// For the first listing after the start, before anything is decided. One thread at a time; the
// answers of the runtime may come on any.
class ContainerAdopter {
 public:
  // `findings`: what the start found in place of the state files. All references outlive this
  // object; the runtime client is stopped before it is destroyed.
  ContainerAdopter(const admission::Node& node, allocation::AllocationManager& allocation,
                   const ContainerRegistry& registry, RuntimeClient& runtime,
                   const cgroup::CgroupTree& cgroups, Conditions& conditions,
                   allocation::StateFindings findings);
  ContainerAdopter(const ContainerAdopter&) = delete;
  ContainerAdopter& operator=(const ContainerAdopter&) = delete;

  // Asks the runtime for the CPUs of each container that runs with exclusive CPUs by its mark or by
  // the state, and of each whose mark says more than the state has; of those that do not run only
  // if a file was missing or bad. Calls `ready` once, on any thread; perhaps at once. Then call
  // Finish.
  void Begin(const RuntimeListing& listing, std::function<void()> ready);

  // Reads the containers' cgroups and adopts the containers (admission::Adopt). Reports
  // StateRebuilt and AssignmentUnknown. Waits for the decision thread and for cgroup files, not for
  // the disk: a crash before the assignments are saved has them adopted again. Sets the `place` of
  // containers that are not on exactly the CPUs that they are assigned. Returns the resources of
  // adopted devices.
  // Errors: of the runtime; kCorrupt if running containers refute the state files and alignd is to
  // refuse such files, which is reported. Nothing has been changed. Begin again with another
  // listing.
  Result<std::set<std::string>> Finish(RuntimeListing& listing);

  // Whether the last Finish has refused the state files.
  bool HasRefused() const { return has_refused_; }

 private:
  struct Pending {
    admission::MarkedContainer container;
    bool is_incomplete = false;  // the state lacks what its mark says, or says another thing
    bool asks_cpus = false;      // it has CPUs in the state or by its mark
    std::string cgroup{};        // its path; empty: not known
    std::string why_not{};       // an error of the runtime, which did not say where it is
    bool only_place = false;     // nothing is adopted, but it may not have left exclusive CPUs

    // It cannot be adopted without the runtime's answer.
    bool NeedsCpus() const { return is_incomplete && !container.mark.cpus.empty(); }
  };
  // Shared with the callback that waits for the runtime.
  struct Questions {
    std::vector<Pending> pending;
    std::optional<Error> failure;
    bool is_slow = false;  // an answer did not come in time: only what is necessary is asked for
    std::function<void()> ready;
  };

  void Ask(const std::shared_ptr<Questions>& questions, size_t next);
  std::set<std::string> AbsentPods(const RuntimeListing& listing) const;
  // Adds the running containers that have something in the state, or were resized to shared CPUs,
  // and have no mark that can be read.
  void AddUnmarked(const RuntimeListing& listing, const admission::NodeState& state);
  // Logs the containers whose CPUs in the state files could not be compared with the runtime, and
  // keeps them for Report.
  void NoteUncompared();
  // Reports what running containers refute.
  Error Refuse(const std::vector<admission::AdoptionNote>& refuted);
  static void NotePlaces(const admission::NodeState& state,
                         const std::vector<admission::MarkedContainer>& containers,
                         RuntimeListing& listing);
  void Report(const RuntimeListing& listing, const admission::Adoption& adoption);

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  const ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  const cgroup::CgroupTree& cgroups_;
  Conditions& conditions_;
  const allocation::StateFindings findings_;
  std::shared_ptr<Questions> questions_;
  std::vector<admission::AdoptionNote> unreadable_;  // marks
  std::vector<std::string> uncompared_;              // containers, and why
  bool has_refused_ = false;                         // with this listing
  bool was_refused_ = false;                         // with an earlier one
};

}  // namespace alignd::reconcile
