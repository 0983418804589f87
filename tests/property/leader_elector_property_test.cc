// Several electors with clocks of their own, and an API server that loses and delays: at no time do
// two of them lead.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "edge/fake_leases.h"
#include "extender/leader_elector.h"

namespace alignd::extender {
namespace {

using testing::FakeLeases;

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// One run. Time passes only in Pass, which looks for leaders.
class SimulatedReplicas {
 public:
  explicit SimulatedReplicas(uint64_t seed) : random_(seed) {
    const size_t size = 2 + Below(3);
    for (size_t i = 0; i < size; ++i) Start(i);
  }

  void Run(nanoseconds duration) {
    const nanoseconds end = time_ + duration;
    while (time_ < end && !HasFailed()) {
      Pass(nanoseconds(1ms) * (1 + Below(300)));
      if (!is_calm_) Disturb();
      StepThoseThatAreDue();
    }
  }
  // From now on, nothing is lost, and nothing stands still for long.
  void Calm() { is_calm_ = true; }
  size_t Leaders() const {
    return static_cast<size_t>(std::ranges::count_if(
        replicas_, [](const auto& replica) { return replica->elector->LeadingNow().ok(); }));
  }
  bool HasFailed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  size_t changes() const { return changes_; }

 private:
  struct Replica {
    nanoseconds offset{0};
    double rate = 1;       // of its clock
    nanoseconds next{0};   // when it takes its next step
    bool is_busy = false;  // it is within a step
    std::unique_ptr<LeaderElector> elector;
  };

  // A request that arrives when its answer is no longer waited for.
  struct LateRequest {
    nanoseconds time;
    std::string method;
    std::string path;
    std::string body;
  };

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  bool Happens(uint64_t percent) { return Below(100) < percent; }

  LeaderElector::Time ClockOf(const Replica& replica) const {
    const auto passed = std::chrono::duration_cast<nanoseconds>(time_ * replica.rate);
    return LeaderElector::Time(replica.offset + passed);
  }

  // Another process; the former one of this place is gone.
  void Start(size_t i) {
    if (replicas_.size() <= i) replicas_.push_back(std::make_unique<Replica>());
    Replica& replica = *replicas_[i];
    replica.offset = nanoseconds(1s) * (1 + Below(1'000'000));
    // renew_deadline * 1.04 < lease_duration * 0.96.
    replica.rate = 0.96 + 0.01 * static_cast<double>(Below(9));
    replica.next = time_ + nanoseconds(1ms) * Below(3000);
    const std::string identity = "r" + std::to_string(++started_);
    replica.elector = std::make_unique<LeaderElector>(
        LeaderElector::Settings{.identity = identity},
        [this]() -> Result<apiserver::ApiCall> {
          return apiserver::ApiCall(
              [this](const std::string& method, const std::string& path, const std::string& body) {
                return Answer(method, path, body);
              });
        },
        LeaderElector::Clocks{
            .boot = [this, &replica] { return ClockOf(replica); },
            // Of no meaning for the electors: it stands still, and jumps.
            .wall = [this] { return std::chrono::system_clock::time_point(1s * Below(100)); }});
  }

  // Time passes in parts; in between, other replicas may take a step.
  void Pass(nanoseconds duration) {
    while (duration > 0ns) {
      const nanoseconds part = std::min<nanoseconds>(duration, 50ms);
      duration -= part;
      time_ += part;
      std::erase_if(late_, [this](const LateRequest& request) {
        if (time_ < request.time) return false;
        (void)leases_.Call(request.method, request.path, request.body);
        return true;
      });
      Look();
    }
  }

  void Look() {
    const size_t leaders = Leaders();
    if (leaders > 1 && failure_.empty()) {
      failure_ = std::to_string(leaders) + " replicas lead at " +
                 std::to_string(std::chrono::duration<double>(time_).count()) + " s";
    }
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (!replicas_[i]->elector->LeadingNow().ok()) continue;
      if (leader_ != i) ++changes_;
      leader_ = i;
    }
  }

  // A process is stopped, a request is on its way, an answer is: meanwhile, the others go on.
  void Delay() {
    nanoseconds rest = nanoseconds(1ms) * Below(20);
    if (!is_calm_ && Happens(15)) rest = nanoseconds(1ms) * Below(4'000);
    if (!is_calm_ && Happens(4)) rest = nanoseconds(1s) * Below(60);
    while (rest > 0ns && !HasFailed()) {
      const nanoseconds part = std::min<nanoseconds>(rest, nanoseconds(1ms) * (1 + Below(500)));
      rest -= part;
      Pass(part);
      StepThoseThatAreDue();
    }
  }

  void StepThoseThatAreDue() {
    for (size_t i = 0; i < replicas_.size() && !HasFailed(); ++i) {
      Replica& replica = *replicas_[i];
      if (replica.is_busy || time_ < replica.next) continue;
      replica.is_busy = true;
      const auto pause = replica.elector->Step();
      Look();
      // The thread can be late.
      if (!is_calm_ && Happens(5)) Delay();
      replica.next = time_ + pause;
      replica.is_busy = false;
    }
  }

  Result<apiserver::ApiAnswer> Answer(const std::string& method, const std::string& path,
                                      const std::string& body) {
    const Error lost{ErrorCode::kUnavailable, "no answer", "look"};
    Delay();
    if (!is_calm_ && Happens(8)) {
      // The caller no longer waits for it; it can still arrive.
      if (Happens(50)) {
        late_.push_back({time_ + nanoseconds(1ms) * Below(5'000), method, path, body});
      }
      return lost;
    }
    if (!is_calm_ && Happens(4)) return apiserver::ApiAnswer{.status = 503};
    const FakeLeases::Answer answer = leases_.Call(method, path, body);
    Delay();
    if (!is_calm_ && Happens(8)) return lost;
    return apiserver::ApiAnswer{.status = answer.status, .body = answer.body};
  }

  // What happens to a replica, or what a user does.
  void Disturb() {
    const size_t i = Below(replicas_.size());
    if (replicas_[i]->is_busy) return;
    LeaderElector& elector = *replicas_[i]->elector;
    if (Happens(1) && Happens(50)) {  // SIGKILL
      Start(i);
    } else if (Happens(1) && Happens(50)) {  // SIGTERM
      replicas_[i]->is_busy = true;
      elector.Resign();
      (void)elector.Release();
      Start(i);
      replicas_[i]->is_busy = false;
    } else if (Happens(1) && Happens(20)) {
      leases_.Delete();
    } else if (Happens(1) && Happens(20)) {
      leases_.Edit("holderIdentity", "");
    } else if (Happens(1) && Happens(20)) {
      // Not 1, with which a Lease without a holder is released.
      leases_.Edit("leaseDurationSeconds", 2);
    } else if (Happens(2)) {
      replicas_[i]->next = time_ + nanoseconds(1s) * Below(40);  // SIGSTOP
    }
  }

  std::mt19937_64 random_;
  FakeLeases leases_{"kube-system"};
  std::vector<std::unique_ptr<Replica>> replicas_;
  nanoseconds time_{0};
  std::vector<LateRequest> late_;
  bool is_calm_ = false;
  int started_ = 0;
  size_t changes_ = 0;
  std::optional<size_t> leader_;
  std::string failure_;
};

TEST(LeaderElectorProperty, NoTwoReplicasLead) {
  size_t changes = 0;
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::off);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulatedReplicas replicas(seed);
    replicas.Run(600s);
    ASSERT_FALSE(replicas.HasFailed()) << "seed " << seed << ": " << replicas.failure();
    changes += replicas.changes();
    // When all works again, there is a leader soon.
    replicas.Calm();
    replicas.Run(60s);
    ASSERT_FALSE(replicas.HasFailed()) << "seed " << seed << ": " << replicas.failure();
    ASSERT_EQ(replicas.Leaders(), 1U) << "seed " << seed;
  }
  spdlog::set_level(level);
  // Else the runs would not have shown much.
  EXPECT_GT(changes, 160U);
}

}  // namespace
}  // namespace alignd::extender
