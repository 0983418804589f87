#include "reconcile/container_adopter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "alignd/admission/node_state.h"
#include "alignd/base/counted.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "alignd/pod/cri_sizes.h"

namespace alignd::reconcile {
namespace {

constexpr size_t kMaxListed = 5;  // containers in the message

// "a; b; and 3 more".
std::string List(const std::vector<std::string>& texts) {
  std::string list;
  for (size_t i = 0; i < std::min(texts.size(), kMaxListed); ++i) {
    list += (list.empty() ? "" : "; ") + texts[i];
  }
  if (texts.size() > kMaxListed) {
    list += "; and " + std::to_string(texts.size() - kMaxListed) + " more";
  }
  return list;
}

Subject SubjectOf(const admission::AdoptionNote& note) { return {note.id, note.key, note.pod}; }

// What the start found in place of the files; `adopts`: containers that the files lack are adopted.
std::string Found(const allocation::StateFindings& findings, bool adopts,
                  const std::vector<admission::AdoptionNote>& refuted) {
  std::vector<std::string> found;
  for (const admission::AdoptionNote& note : refuted) found.push_back(note.text);
  for (const allocation::BadFile& bad : findings.bad) {
    found.push_back(bad.file.string() + " cannot be used and is kept as " + bad.kept.string() +
                    " (" + bad.why + ")");
  }
  for (const auto& file : findings.outdated) {
    found.push_back(file.string() +
                    " is out of date and was not used: it was saved beside another "
                    "cpu_manager_state, as before a return to an earlier version of alignd");
  }
  if (adopts) {
    for (const auto& file : findings.missing) found.push_back(file.string() + " was missing");
  }
  if (found.empty()) return "containers run whose assignments the state files do not have";
  return List(found);
}

bool HasAny(const admission::NodeState& state, const ContainerKey& key) {
  return state.cpu.Find(key) != nullptr || state.memory.Find(key) != nullptr ||
         state.cpu.shares.contains(key) || state.devices.allocations.contains(key);
}

}  // namespace

ContainerAdopter::ContainerAdopter(const admission::Node& node,
                                   allocation::AllocationManager& allocation,
                                   const ContainerRegistry& registry, RuntimeClient& runtime,
                                   const cgroup::CgroupTree& cgroups, Conditions& conditions,
                                   allocation::StateFindings findings)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      cgroups_(cgroups),
      conditions_(conditions),
      findings_(std::move(findings)) {}

void ContainerAdopter::Begin(const RuntimeListing& listing, std::function<void()> ready) {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  // Without a file that is lost, nothing says that one that does not run has not been released.
  const bool adopts_ended = !findings_.bad.empty() || !findings_.missing.empty();
  questions_ = std::make_shared<Questions>();
  questions_->ready = std::move(ready);
  unreadable_.clear();
  was_refused_ = std::exchange(has_refused_, false) || was_refused_;
  for (const RuntimeListing::Marked& marked : listing.marked) {
    Result<admission::AssignmentMark> mark =
        checkpoint::ParseMark(marked.key, marked.mark_id, marked.mark);
    if (!mark.ok()) {
      if (marked.runs && !HasAny(snapshot->state, marked.key)) {
        unreadable_.push_back(
            {marked.id, marked.key, marked.pod,
             "its mark cannot be read: " + mark.error().message + "; it runs in the shared pool"});
      }
      continue;
    }
    // What a pod is assigned as a whole stays with it when an init container has ended.
    const bool is_part = !mark->whole.IsEmpty() && PodLevelResourceManagersOn(node_.config);
    const bool is_over = (mark->IsInit() && !is_part) || !marked.has_sandbox;
    if (!marked.runs && (is_over || !adopts_ended)) continue;
    const bool is_incomplete = admission::IsIncomplete(node_, snapshot->state, marked.key, *mark);
    // What the mark of one that runs says is compared with the state.
    if (!is_incomplete && !marked.runs) continue;
    const bool has_cpus = !mark->cpus.empty() || snapshot->state.cpu.Find(marked.key) != nullptr ||
                          snapshot->state.cpu.WasShared(marked.key);
    questions_->pending.push_back({.container = {.id = marked.id,
                                                 .key = marked.key,
                                                 .pod = marked.pod,
                                                 .runs = marked.runs,
                                                 .mark = *std::move(mark)},
                                   .is_incomplete = is_incomplete,
                                   .asks_cpus = node_.cpu.has_value() && has_cpus});
  }
  AddUnmarked(listing, snapshot->state);
  Ask(questions_, 0);
}

void ContainerAdopter::AddUnmarked(const RuntimeListing& listing,
                                   const admission::NodeState& state) {
  std::set<ContainerKey> known;
  for (const Pending& pending : questions_->pending) known.insert(pending.container.key);
  std::set<std::string> marked;
  for (const RuntimeListing::Marked& container : listing.marked) marked.insert(container.id);
  for (const RuntimeListing::Container& listed : listing.containers) {
    const bool has_any = HasAny(state, listed.key);
    const bool was_shared = state.cpu.WasShared(listed.key);
    if ((!has_any && !was_shared) || !known.insert(listed.key).second) continue;
    admission::AssignmentMark mark;
    // With a mark that cannot be read, the state counts. Without one, it does not stay on one NUMA
    // node.
    const auto share = state.cpu.shares.find(listed.key);
    if (share != state.cpu.shares.end() && marked.contains(listed.id)) mark.share = share->second;
    const bool is_incomplete = admission::IsIncomplete(node_, state, listed.key, mark);
    questions_->pending.push_back({.container = {.id = listed.id,
                                                 .key = listed.key,
                                                 .pod = registry_.PodName(listed.key.pod_uid),
                                                 .mark = std::move(mark)},
                                   .is_incomplete = is_incomplete,
                                   .asks_cpus = was_shared || state.cpu.Find(listed.key) != nullptr,
                                   .only_place = !has_any});
  }
}

// One after the other: the runtime may start a process for each.
void ContainerAdopter::Ask(const std::shared_ptr<Questions>& questions, size_t next) {
  auto& pending = questions->pending;
  const auto is_asked = [&](const Pending& one) {
    return one.NeedsCpus() || (one.asks_cpus && !questions->is_slow);
  };
  for (; next < pending.size() && !is_asked(pending[next]); ++next) {
    if (!pending[next].asks_cpus) continue;  // its mark is all that is compared
    pending[next].why_not = "not asked: an earlier answer came too late";
  }
  if (next >= pending.size() || questions->failure) return std::exchange(questions->ready, {})();
  runtime_.FindSpec(
      pending[next].container.id, [this, questions, next](const Result<ContainerSpec>& spec) {
        if (spec.ok()) {
          questions->pending[next].cgroup = spec->cgroup;
          questions->pending[next].container.record = spec->cpus;
          questions->pending[next].container.millis = MillisFromShares(spec->cpu_shares);
        } else if (questions->pending[next].NeedsCpus() ||
                   spec.error().code == ErrorCode::kUnavailable) {
          // kNotFound: this runtime does not say.
          if (spec.error().code != ErrorCode::kNotFound) {
            questions->failure = spec.error();
          }
        } else if (spec.error().code != ErrorCode::kNotFound) {
          questions->pending[next].why_not = spec.error().Text();
          questions->is_slow = spec.error().code == ErrorCode::kDeadlineExceeded;
        }
        Ask(questions, next + 1);
      });
}

Result<std::set<std::string>> ContainerAdopter::Finish(RuntimeListing& listing) {
  if (questions_->failure) return *questions_->failure;
  NoteUncompared();
  std::vector<admission::MarkedContainer> containers;
  std::vector<admission::MarkedContainer> only_places;
  bool any_incomplete = false;
  for (Pending& pending : questions_->pending) {
    admission::MarkedContainer& container = pending.container;
    if (container.runs && !pending.cgroup.empty()) {
      // A container that has not been started may have no cgroup yet.
      const Result<cgroup::Cpuset> now = cgroups_.ReadCpus(pending.cgroup);
      if (now.ok()) container.cgroup = now->cpus;
    }
    (pending.only_place ? only_places : containers).push_back(container);
    any_incomplete = any_incomplete || pending.is_incomplete;
  }
  const std::set<std::string> absent = AbsentPods(listing);
  admission::NodeState state = allocation_.snapshot()->state;
  for (const std::string& uid : absent) admission::ReleasePod(uid, state);
  const std::vector<admission::AdoptionNote> refuted =
      admission::FindRefuted(node_, state, containers);
  if (!refuted.empty() && findings_.on_bad == allocation::OnBadState::kRefuse) {
    return Refuse(refuted);
  }
  admission::Adoption adoption;
  std::set<std::string> resources;
  if (any_incomplete || !refuted.empty() || !findings_.outdated.empty()) {
    std::optional<admission::Adoption> adopted = allocation_.Adopt(containers, absent);
    if (!adopted) return Error{ErrorCode::kUnavailable, "alignd is stopping", "start it again"};
    adoption = *std::move(adopted);
    state = adoption.next;
    for (const Pending& pending : questions_->pending) {
      if (!pending.is_incomplete && refuted.empty()) continue;
      for (const auto& [resource, devices] : pending.container.mark.devices) {
        if (state.devices.resources.contains(resource)) resources.insert(resource);
      }
    }
  }
  containers.insert(containers.end(), only_places.begin(), only_places.end());
  NotePlaces(state, containers, listing);
  for (const admission::AdoptionNote& note : unreadable_) {
    // The mark of another container of its pod may say what it is assigned.
    if (!HasAny(state, note.key)) adoption.unknown.push_back(note);
  }
  Report(listing, adoption);
  return resources;
}

void ContainerAdopter::NoteUncompared() {
  uncompared_.clear();
  std::vector<std::string> nowhere;
  for (const Pending& pending : questions_->pending) {
    const admission::MarkedContainer& container = pending.container;
    if (pending.why_not.empty()) continue;
    std::string text =
        NameOf({container.id, container.key, container.pod}) + ": " + pending.why_not;
    (pending.only_place ? nowhere : uncompared_).push_back(std::move(text));
  }
  if (!nowhere.empty()) {
    spdlog::warn(
        "it is not known on which CPUs {} that a resize has moved to shared CPUs now runs: {}",
        Counted(nowhere.size(), "container"), List(nowhere));
  }
  if (uncompared_.empty()) return;
  spdlog::warn("the state files were not compared with the runtime for {}: {}",
               Counted(uncompared_.size(), "container"), List(uncompared_));
}

Error ContainerAdopter::Refuse(const std::vector<admission::AdoptionNote>& refuted) {
  has_refused_ = true;
  std::vector<std::string> texts;
  for (const admission::AdoptionNote& note : refuted) texts.push_back(note.text);
  const std::string remedy =
      "start alignd with --on-bad-state=rebuild, or with the right files; or delete the pod of one "
      "of these containers";
  conditions_.StateRebuilt(
      "nothing was rebuilt, as alignd runs with --on-bad-state=refuse: " + List(texts) +
          ". New pods and containers wait, and no container is moved",
      remedy);
  return {ErrorCode::kCorrupt, "the state files contradict running containers: " + List(texts),
          remedy};
}

// Exclusive CPUs must not be given to a container before another one has left them, whose they are
// not by the state.
void ContainerAdopter::NotePlaces(const admission::NodeState& state,
                                  const std::vector<admission::MarkedContainer>& containers,
                                  RuntimeListing& listing) {
  std::map<std::string, CpuSet> places;
  std::map<std::string, CpuSet> assumed;
  for (const admission::MarkedContainer& container : containers) {
    if (!container.runs) continue;
    if (state.cpu.withheld.contains(container.key)) continue;  // it stays where it is
    const CpuSet place = container.record | container.cgroup;
    const CpuSet* const assigned = state.cpu.Find(container.key);
    if (assigned != nullptr) assumed[container.id] = *assigned;
    if (container.record.empty()) continue;
    if (assigned != nullptr && assigned->Contains(place)) {
      // It stays, which its update confirms; starts wait for that.
      if (place == *assigned) continue;
      // Without its cgroup, it is not certain that it has not come onto the others yet.
      if (container.cgroup.empty()) continue;
    }
    places[container.id] = place;
  }
  for (RuntimeListing::Container& listed : listing.containers) {
    if (const auto found = places.find(listed.id); found != places.end()) {
      listed.place = found->second;
    } else if (const auto own = assumed.find(listed.id); own != assumed.end()) {
      listed.assumed = own->second;
    }
  }
}

// The listing shows that they are gone. They are released with it as well; here they must not be in
// the way of the containers that are adopted before.
std::set<std::string> ContainerAdopter::AbsentPods(const RuntimeListing& listing) const {
  std::set<std::string> absent = admission::PodsIn(allocation_.snapshot()->state);
  for (const RuntimeListing::Sandbox& sandbox : listing.sandboxes) absent.erase(sandbox.pod_uid);
  std::erase_if(absent, [this](const std::string& uid) { return !registry_.IsGone(uid); });
  return absent;
}

void ContainerAdopter::Report(const RuntimeListing& listing, const admission::Adoption& adoption) {
  for (const admission::AdoptionNote& note : adoption.unknown) {
    conditions_.AssignmentUnknown(SubjectOf(note), note.text);
  }
  const bool is_news = !findings_.bad.empty() || !findings_.outdated.empty() ||
                       !adoption.adopted.empty() || !adoption.refuted.empty() || was_refused_;
  if (!is_news) return;
  std::vector<std::string> adopted;
  for (const admission::AdoptionNote& note : adoption.adopted) {
    adopted.push_back(NameOf(SubjectOf(note)) + ": " + note.text);
  }
  std::string message =
      (was_refused_ ? "the state files contradicted running containers until a pod of them ended"
                    : Found(findings_, !adopted.empty(), adoption.refuted)) +
      ". " +
      (adopted.empty() ? std::string("No container lacked an assignment that a mark has")
                       : "The assignments of " + Counted(adopted.size(), "container") +
                             " were rebuilt from the runtime (" + List(adopted) + ")");
  if (!adoption.unknown.empty()) {
    message += ". What " + Counted(adoption.unknown.size(), "container") +
               " should have is not known in all: AssignmentUnknown says what";
  }
  if (!uncompared_.empty()) {
    message += ". The state files were not compared with the runtime for " +
               Counted(uncompared_.size(), "container") + " (" + List(uncompared_) + ")";
  }
  std::set<std::string> marked;
  for (const RuntimeListing::Marked& container : listing.marked) marked.insert(container.id);
  const auto unmarked = std::ranges::count_if(
      listing.containers, [&](const auto& container) { return !marked.contains(container.id); });
  if (!findings_.bad.empty() && unmarked > 0) {
    message += ". " + Counted(unmarked, "container") +
               " without a mark count as containers of the shared pool: they had no assignment, or "
               "this version of alignd did not create them";
  }
  std::string remedy;
  if (!findings_.bad.empty()) {
    remedy =
        "find out what changed the file: the disk, or another program; remove the kept file when "
        "you do not need it any more";
  } else if (!adoption.refuted.empty()) {
    remedy =
        "find out what replaced the state files: a backup or a snapshot that was restored, or "
        "another program";
  }
  conditions_.StateRebuilt(message, remedy);
}

}  // namespace alignd::reconcile
