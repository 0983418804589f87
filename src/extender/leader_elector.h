// Elects one leader among several replicas, with a Lease, as Kubernetes' own components do.
// Source: client-go tools/leaderelection, leaderelection.go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "alignd/base/result.h"
#include "apiserver/api_client.h"
#include "apiserver/kept_call.h"
#include "extender/lease.h"
#include "sync/boot_clock.h"
#include "sync/mutex.h"

namespace alignd::extender {

// At no time do two replicas lead, if their clocks do not stand still and all have the same times:
// - The leader leads for `renew_deadline` after the moment before its last successful write was
//   sent, by its own clock, which also runs while the machine is suspended.
// - Another replica takes the Lease when it has seen no change of it for `lease_duration`, and for
//   the duration in it, by its own clock. So the clocks of machines are never compared; one may be
//   faster by the proportion of both times.
// - A Lease that the leader has released is taken at once: it has stopped before.
// - Behind a Lease that did not exist, there may be a leader whose Lease was deleted. The replica
//   that creates it leads after `lease_duration`.
//
// The clock of a virtual machine can stand still while the hypervisor pauses or restores it: the
// replica in it then leads for that much longer.
//
// One thread at a time, except where it says thread-safe.
class LeaderElector {
 public:
  using Time = BootClock::time_point;
  using Connect = apiserver::KeptCall<Time>::Connect;

  // The defaults are those of kube-scheduler.
  struct Settings {
    std::string name_space = "kube-system";
    std::string name = "alignd-extender";
    std::string identity = {};  // of this replica alone, also after a restart
    std::chrono::seconds lease_duration{15};
    std::chrono::milliseconds renew_deadline{10'000};
    std::chrono::milliseconds retry_period{2'000};
  };
  struct Clocks {
    std::function<Time()> boot = &BootClock::now;
    std::function<std::chrono::system_clock::time_point()> wall = &std::chrono::system_clock::now;
  };
  // A pause between two attempts is longer than retry_period by at most this part.
  static constexpr double kJitter = 0.2;

  LeaderElector(Settings settings, Connect connect);
  LeaderElector(Settings settings, Connect connect, Clocks clocks);
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // Reads the Lease, and takes or renews it. How long to pause before the next step.
  std::chrono::milliseconds Step();
  // Empties the Lease. Only after Resign. Errors: kUnavailable: this replica does not have it, or
  // has not led with it, or it cannot be written.
  Result<Done> Release();

  // This replica no longer leads, from now on. It renews the Lease if it has it, and takes none.
  // Thread-safe.
  void Resign();

  struct Leading {
    uint64_t term = 0;  // how often this replica has become the leader
    // The former leader has released the Lease: it has seen each pod that it let through.
    bool is_handed_over = false;
  };
  // Errors: kUnavailable: NotLeader, or NewLeader: it leads soon. Thread-safe.
  Result<Leading> LeadingAt(Time now) const;
  Result<Leading> LeadingNow() const { return LeadingAt(clocks_.boot()); }

  struct Counts {
    uint64_t terms = 0;
    uint64_t failures = 0;    // steps that failed
    int64_t transitions = 0;  // as the Lease has it
  };
  Counts GetCounts() const;  // thread-safe

 private:
  struct Failure {
    Error error;
    std::optional<std::chrono::seconds> pause = {};
  };
  using Attempt = std::optional<Failure>;  // nullopt: nothing failed
  // A time in which this replica has the Lease.
  struct Term {
    std::string acquired;
    bool is_handed_over = false;
    bool is_created = false;  // it may lead only later
    uint64_t number = 0;      // 0: not known to have begun
    Time leads_from = {};
  };

  // `again`: the Lease has changed meanwhile.
  Attempt Try(bool& again);
  Attempt Read(bool& is_absent);
  Attempt Create(bool& again);
  Attempt TakeOver(bool& again);
  Attempt Renew(bool& again);
  Attempt Write(const std::string& method, const std::string& body, bool& again);
  void Observe(const Lease& lease);
  void Renewed(const Lease& lease, Time before) REQUIRES(mutex_);
  bool HasExpired() const;
  bool HasResigned() const;
  std::string Stamp();
  LeaseTerm TermOf(int64_t transitions, const std::string& acquired);
  Failure FailureOf(const apiserver::ApiAnswer& answer, const std::string& verb) const;
  std::string LeasePath() const;
  std::string Shown() const;  // of the Lease: its namespace and name
  Error WhyNotLeader() const REQUIRES(mutex_);
  std::chrono::milliseconds Note(const Attempt& attempt);

  const Settings settings_;
  const Clocks clocks_;
  apiserver::KeptCall<Time> call_;
  std::optional<Lease> known_;  // as the API server has it now; nullopt: it must be read
  Time observed_at_{};          // when observed_ was first seen
  std::chrono::system_clock::time_point stamped_{};
  std::string shown_holder_;
  bool was_leading_ = false;
  std::minstd_rand jitter_;

  mutable Mutex mutex_;
  std::optional<Lease> observed_ GUARDED_BY(mutex_);  // as it was seen last
  std::optional<Term> term_ GUARDED_BY(mutex_);
  Time valid_until_ GUARDED_BY(mutex_){};
  bool has_resigned_ GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ GUARDED_BY(mutex_);  // the last one, if it is not over
  Counts counts_ GUARDED_BY(mutex_);
};

// HOST_UNIQUE, another one for each process. Errors: kIo.
Result<std::string> NewIdentity();

}  // namespace alignd::extender
