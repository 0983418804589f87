#include "extender/cluster_feed.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "extender/metrics_text.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using ClusterClock = std::chrono::steady_clock;

constexpr std::array<ObjectKind, 3> kKinds = {ObjectKind::kNode, ObjectKind::kTopology,
                                              ObjectKind::kPod};
// How often it is looked whether what is known is too old.
constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr size_t kMaxProblemsLogged = 20;  // of one change
// While no node can be used, ends of pods are not passed on. The places of further ones are dropped
// by time.
constexpr size_t kMaxEnded = 20'000;

}  // namespace

class ClusterFeed::State final : public ObjectSink {
 public:
  State(Settings settings, const ObjectWatch::Connect& connect, Extender& extender)
      : settings_(std::move(settings)), extender_(extender) {
    for (const ObjectKind kind : kKinds) {
      watches_[Index(kind)] = std::make_unique<ObjectWatch>(kind, settings_.watch, connect, *this);
    }
    for (const ObjectKind kind : kKinds) {
      threads_[Index(kind)] = std::thread([this, kind] { Follow(kind); });
    }
    giving_ = std::thread([this] { Give(); });
    listing_ = std::thread([this] { EndWatchesForLists(); });
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() override {
    {
      const MutexLock lock(mutex_);
      is_ending_ = true;
      wake_.NotifyAll();
      list_wake_.NotifyAll();
    }
    giving_.join();
    listing_.join();
    for (const ObjectKind kind : kKinds) {
      // A call that has not begun yet when it is stopped is stopped again.
      while (!has_ended_[Index(kind)].load()) {
        watches_[Index(kind)]->Stop();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      threads_[Index(kind)].join();
    }
  }

  void Set(ObjectKind kind, const std::string& key, const std::string& json) override {
    const MutexLock lock(mutex_);
    view_.Set(kind, key, json);
    ++Of(kind).changes;
    has_changed_ = true;
    wake_.NotifyAll();
  }
  void Remove(ObjectKind kind, const std::string& key, const std::string& uid) override {
    const MutexLock lock(mutex_);
    view_.Remove(kind, key);
    if (kind == ObjectKind::kPod && !uid.empty() && ended_.size() < kMaxEnded) ended_.insert(uid);
    ++Of(kind).changes;
    has_changed_ = true;
    wake_.NotifyAll();
  }
  void Listed(ObjectKind kind, const std::set<std::string>& keys,
              ClusterClock::time_point begun) override {
    const MutexLock lock(mutex_);
    view_.KeepOnly(kind, keys);
    ++Of(kind).lists;
    Of(kind).current = begun;
    has_changed_ = true;
    wake_.NotifyAll();
  }
  void Current(ObjectKind kind, ClusterClock::time_point as_of) override {
    const MutexLock lock(mutex_);
    Of(kind).current = as_of;
  }
  void Failed(ObjectKind kind, const std::optional<Error>& error) override {
    const MutexLock lock(mutex_);
    OfKind& of_kind = Of(kind);
    if (!error) {
      spdlog::info("ApiServerNotRead: {}: resolved", ToString(kind));
    } else {
      ++of_kind.failures;
      if (!of_kind.failure || of_kind.failure->Text() != error->Text()) {
        spdlog::warn("ApiServerNotRead: {}", error->Text());
      }
    }
    of_kind.failure = error;
    has_changed_ = true;  // /readyz shows it
    wake_.NotifyAll();
  }

  void ListAgain() {
    const MutexLock lock(mutex_);
    ++lists_wanted_;
    wake_.NotifyAll();
    list_wake_.NotifyAll();
  }

  ClusterClock::time_point AsOf() const {
    const MutexLock lock(mutex_);
    return given_;
  }

  std::string MetricsPage() const {
    std::array<OfKind, kKinds.size()> of_kinds;
    std::array<size_t, kKinds.size()> objects{};
    {
      const MutexLock lock(mutex_);
      of_kinds = of_kinds_;
      for (const ObjectKind kind : kKinds) objects[Index(kind)] = view_.size(kind);
    }
    const auto now = ClusterClock::now();
    MetricsText page;
    const auto samples = [&page](auto value) {
      for (const ObjectKind kind : kKinds) {
        std::string label = "kind=\"";
        label.append(ToString(kind)).append("\"");
        page.Sample(value(Index(kind)), label);
      }
    };
    page.Family("alignd_extender_objects", "gauge", "Objects of the API server that are known.");
    samples([&](size_t kind) { return std::to_string(objects[kind]); });
    page.Family("alignd_extender_lists_total", "counter", "Complete lists of the API server.");
    samples([&](size_t kind) { return std::to_string(of_kinds[kind].lists); });
    page.Family("alignd_extender_object_changes_total", "counter",
                "Objects that the API server has sent or removed.");
    samples([&](size_t kind) { return std::to_string(of_kinds[kind].changes); });
    page.Family("alignd_extender_api_failures_total", "counter",
                "Lists and watches of the API server that failed.");
    samples([&](size_t kind) { return std::to_string(of_kinds[kind].failures); });
    page.Family(
        "alignd_extender_age_seconds", "gauge",
        "Time since it was last known that no change was missed; NaN before the first list.");
    samples([&](size_t kind) {
      const auto& current = of_kinds[kind].current;
      if (!current) return std::string("NaN");
      return std::to_string(std::chrono::duration<double>(now - *current).count());
    });
    return page.text();
  }

 private:
  struct OfKind {
    // What is known is what the API server had then; nullopt: no list yet.
    std::optional<ClusterClock::time_point> current;
    std::optional<Error> failure;  // the last one, if it is not over
    uint64_t lists = 0;
    uint64_t changes = 0;
    uint64_t failures = 0;
  };

  static size_t Index(ObjectKind kind) { return static_cast<size_t>(kind); }
  OfKind& Of(ObjectKind kind) REQUIRES(mutex_) { return of_kinds_[Index(kind)]; }
  const OfKind& Of(ObjectKind kind) const REQUIRES(mutex_) { return of_kinds_[Index(kind)]; }

  void Follow(ObjectKind kind) {
    for (;;) {
      const uint64_t wanted = ListsWanted();
      const auto pause = watches_[Index(kind)]->Step();
      const auto until = ClusterClock::now() + pause;
      const MutexLock lock(mutex_);
      // A list that is wanted does not wait for the end of a pause after a failure.
      while (!is_ending_ && lists_wanted_ == wanted && ClusterClock::now() < until) {
        wake_.WaitUntil(mutex_, until);
      }
      if (is_ending_) break;
    }
    has_ended_[Index(kind)].store(true);
  }

  uint64_t ListsWanted() const {
    const MutexLock lock(mutex_);
    return lists_wanted_;
  }

  // On a thread of its own: a watch that is being connected cannot be ended for seconds. The caller
  // of ListAgain renews a Lease, and must not wait for it.
  void EndWatchesForLists() {
    uint64_t done = 0;
    for (;;) {
      {
        const MutexLock lock(mutex_);
        while (!is_ending_ && lists_wanted_ == done) list_wake_.Wait(mutex_);
        if (is_ending_) return;
        done = lists_wanted_;
      }
      for (const auto& watch : watches_) watch->ListAgain();
    }
  }

  // Why calls cannot be answered; nullopt: they can.
  std::optional<Error> Problem() const REQUIRES(mutex_) {
    for (const ObjectKind kind : kKinds) {
      const OfKind& of_kind = Of(kind);
      if (of_kind.current && ClusterClock::now() - *of_kind.current < settings_.stale_after) {
        continue;
      }
      Error error = {ErrorCode::kUnavailable,
                     of_kind.current ? "StaleNodes: " + std::string(ToString(kind)) +
                                           ": the API server has not been heard for too long"
                                     : "NodesNotRead: " + std::string(ToString(kind)) +
                                           " have not been listed yet",
                     "see whether the API server can be reached"};
      if (of_kind.failure) {
        error.message += ": " + of_kind.failure->message;
        error.remedy = of_kind.failure->remedy;
      }
      return error;
    }
    return std::nullopt;
  }

  void Give() {
    bool had_problem = true;
    for (;;) {
      std::vector<ClusterView::Parts> changed;
      std::optional<Error> problem;
      std::set<std::string> ended;
      std::optional<ClusterClock::time_point> current;
      ClusterClock::time_point given;
      {
        const MutexLock lock(mutex_);
        const auto look = ClusterClock::now() + kBetweenLooks;
        while (!is_ending_ && !has_changed_ && ClusterClock::now() < look) {
          wake_.WaitUntil(mutex_, look);
        }
        const auto until = ClusterClock::now() + settings_.coalesced;
        while (!is_ending_ && has_changed_ && ClusterClock::now() < until) {
          wake_.WaitUntil(mutex_, until);
        }
        if (is_ending_) return;
        problem = Problem();
        has_changed_ = false;
        if (!problem) {
          changed = view_.TakeChanged();
          ended.swap(ended_);
          current = Of(ObjectKind::kPod).current;
          given = *current;
          for (const ObjectKind kind : kKinds) given = std::min(given, *Of(kind).current);
        }
      }
      if (problem) {
        if (!std::exchange(had_problem, true)) {
          spdlog::error("{}; no pod is let through", problem->Text());
        }
        extender_.SetProblem(*std::move(problem));
        continue;
      }
      std::vector<Extender::NodeChange> changes(changed.size());
      settings_.for_each(changed.size(), [&](size_t i) {
        changes[i] = ClusterView::ChangeOf(changed[i], settings_.config);
      });
      LogProblems(changes);
      extender_.ChangeNodes(changes);
      // Also of a pod that has come and gone within these changes: they do not show it.
      extender_.DropPlacesOf(ended, ClusterClock::now());
      extender_.DropPlacesBefore(*current);
      {
        const MutexLock lock(mutex_);
        given_ = given;
      }
      if (std::exchange(had_problem, false)) {
        spdlog::info("{} known from the API server", Counted(extender_.GetCounts().nodes, "node"));
      }
    }
  }

  void LogProblems(const std::vector<Extender::NodeChange>& changes) {
    size_t logged = 0;
    for (const Extender::NodeChange& change : changes) {
      const auto known = problems_.find(change.name);
      if (!change.problem) {
        if (known != problems_.end()) {
          spdlog::info("NodeNotRead: node {}: resolved", change.name);
          problems_.erase(known);
        }
        continue;
      }
      if (known != problems_.end() && known->second == change.problem->Text()) continue;
      problems_[change.name] = change.problem->Text();
      if (++logged <= kMaxProblemsLogged) {
        spdlog::warn("NodeNotRead: node {}: {}; no pod is let through to it", change.name,
                     change.problem->Text());
      }
    }
    if (logged > kMaxProblemsLogged) {
      spdlog::warn("NodeNotRead: {}", Counted(logged - kMaxProblemsLogged, "more node"));
    }
  }

  const Settings settings_;
  Extender& extender_;
  mutable Mutex mutex_;
  CondVar wake_;
  CondVar list_wake_;  // not at each change, as wake_
  ClusterView view_ GUARDED_BY(mutex_);
  std::array<OfKind, kKinds.size()> of_kinds_ GUARDED_BY(mutex_);
  ClusterClock::time_point given_ GUARDED_BY(mutex_){};  // to the extender
  bool has_changed_ GUARDED_BY(mutex_) = false;
  std::set<std::string> ended_ GUARDED_BY(mutex_);  // UIDs of pods; not given to the extender yet
  uint64_t lists_wanted_ GUARDED_BY(mutex_) = 0;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string> problems_;  // of nodes; of the thread `giving_`
  std::array<std::unique_ptr<ObjectWatch>, kKinds.size()> watches_;
  std::array<std::atomic<bool>, kKinds.size()> has_ended_{};
  std::array<std::thread, kKinds.size()> threads_;
  std::thread giving_;
  std::thread listing_;
};

ClusterFeed::ClusterFeed(Settings settings, const ObjectWatch::Connect& connect, Extender& extender)
    : state_(std::make_unique<State>(std::move(settings), connect, extender)) {}

ClusterFeed::~ClusterFeed() = default;

void ClusterFeed::ListAgain() { state_->ListAgain(); }

std::chrono::steady_clock::time_point ClusterFeed::AsOf() const { return state_->AsOf(); }

std::string ClusterFeed::MetricsPage() const { return state_->MetricsPage(); }

}  // namespace alignd::extender
