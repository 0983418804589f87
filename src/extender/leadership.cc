#include "extender/leadership.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "extender/metrics_text.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using ViewClock = std::chrono::steady_clock;

}  // namespace

class Leadership::State {
 public:
  State(Settings settings, LeaderElector::Connect connect, View view)
      : settings_(std::move(settings)),
        view_(std::move(view)),
        elector_(settings_.election, std::move(connect)),
        thread_([this] { Run(); }) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { End(false); }

  Result<uint64_t> Permits() const {
    const Result<LeaderElector::Leading> leading = elector_.LeadingNow();
    if (!leading.ok()) return leading.error();
    ViewClock::time_point needed;
    {
      const MutexLock lock(mutex_);
      if (prepared_term_ != leading->term) return NewLeaderError("the nodes are listed again");
      needed = needed_;
    }
    if (view_.as_of() >= needed) return leading->term;
    const auto left = std::chrono::ceil<std::chrono::seconds>(needed - ViewClock::now());
    if (left.count() <= 0) return NewLeaderError("the nodes are listed again");
    return NewLeaderError("pods that the former leader let through may be on their way for " +
                          std::to_string(left.count()) + " s");
  }

  void HandOver(std::chrono::milliseconds patience) {
    // A replica that waits for the pods of a former leader does not know them.
    const bool knows_all = Permits().ok();
    elector_.Resign();
    const auto until = ViewClock::now() + patience;
    while (knows_all && view_.pods_on_their_way() > 0 && ViewClock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    End(knows_all && view_.pods_on_their_way() == 0);
  }

  std::string MetricsPage() const {
    const LeaderElector::Counts counts = elector_.GetCounts();
    MetricsText page;
    page.Family("alignd_extender_leader", "gauge", "1 if this replica is the leader, else 0.");
    page.Sample(elector_.LeadingNow().ok() ? "1" : "0");
    page.Family("alignd_extender_leader_terms_total", "counter",
                "How often this replica has become the leader.");
    page.Sample(std::to_string(counts.terms));
    page.Family("alignd_extender_lease_transitions", "gauge",
                "leaseTransitions of the Lease, as it was read last.");
    page.Sample(std::to_string(counts.transitions));
    page.Family("alignd_extender_lease_failures_total", "counter",
                "Attempts to read or write the Lease that failed.");
    page.Sample(std::to_string(counts.failures));
    return page.text();
  }

 private:
  static Error NewLeaderError(const std::string& why) {
    return {ErrorCode::kUnavailable, "NewLeader: " + why, "wait; kube-scheduler tries again"};
  }

  void Run() {
    bool is_releasing = false;
    for (bool is_ending = false; !is_ending;) {
      const auto pause = elector_.Step();
      Prepare();
      Announce();
      const auto until = ViewClock::now() + pause;
      bool lists = true;
      while (lists) {
        lists = WaitUntil(until);
        if (lists) view_.list_again();
      }
      const MutexLock lock(mutex_);
      is_ending = is_ending_;
      is_releasing = is_releasing_;
    }
    if (!is_releasing) return;
    const Result<Done> released = elector_.Release();
    if (released.ok()) {
      spdlog::info("the Lease is released: another replica can lead at once");
    } else {
      spdlog::warn("LeaseNotRenewed: {}; another replica leads when the Lease has expired",
                   released.error().Text());
    }
  }

  // Of a new term.
  void Prepare() {
    const Result<LeaderElector::Leading> leading = elector_.LeadingNow();
    if (!leading.ok()) return;
    const MutexLock lock(mutex_);
    if (prepared_term_ == leading->term) return;
    const auto wait = leading->is_handed_over ? std::chrono::milliseconds(0) : settings_.wait;
    prepared_term_ = leading->term;
    needed_ = ViewClock::now() + wait;
    is_list_due_ = true;
    if (wait.count() == 0) return;
    spdlog::info(
        "NewLeader: the former leader has not released the Lease: pods that it let through are "
        "waited for, for {} s",
        std::chrono::ceil<std::chrono::seconds>(wait).count());
  }

  void Announce() {
    if (!settings_.announce || !elector_.LeadingNow().ok()) return;
    const Result<Done> done = settings_.announce();
    const std::string text = done.ok() ? "" : done.error().Text();
    if (!text.empty() && text != not_announced_) spdlog::warn("LeaderNotAnnounced: {}", text);
    if (text.empty() && !not_announced_.empty()) spdlog::info("LeaderNotAnnounced: resolved");
    not_announced_ = text;
  }

  // True if a list is due before that.
  bool WaitUntil(ViewClock::time_point until) {
    const MutexLock lock(mutex_);
    for (;;) {
      const auto now = ViewClock::now();
      if (is_ending_ || now >= until) return false;
      if (is_list_due_ && now >= needed_) {
        is_list_due_ = false;
        return true;
      }
      wake_.WaitUntil(mutex_, is_list_due_ ? std::min(until, needed_) : until);
    }
  }

  // Once with `releases`, then the thread has ended.
  void End(bool releases) {
    {
      const MutexLock lock(mutex_);
      is_ending_ = true;
      is_releasing_ = releases;
      wake_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

  const Settings settings_;
  const View view_;
  LeaderElector elector_;
  std::string not_announced_;  // why, the last time; of the thread
  mutable Mutex mutex_;
  CondVar wake_;
  uint64_t prepared_term_ GUARDED_BY(mutex_) = 0;
  ViewClock::time_point needed_
      GUARDED_BY(mutex_){};  // of prepared_term_: how new the view must be
  bool is_list_due_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  bool is_releasing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

Leadership::Leadership(Settings settings, LeaderElector::Connect connect, View view)
    : state_(std::make_unique<State>(std::move(settings), std::move(connect), std::move(view))) {}

Leadership::~Leadership() = default;

Result<uint64_t> Leadership::Permits() const { return state_->Permits(); }

void Leadership::HandOver(std::chrono::milliseconds patience) { state_->HandOver(patience); }

std::string Leadership::MetricsPage() const { return state_->MetricsPage(); }

}  // namespace alignd::extender
