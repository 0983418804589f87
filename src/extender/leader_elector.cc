#include "extender/leader_elector.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace alignd::extender {
namespace {

using std::chrono::milliseconds;

// As client-go releases a Lease.
constexpr std::chrono::seconds kReleasedDuration{1};

bool IsReleased(const Lease& lease) {
  return lease.holder.empty() && lease.duration == kReleasedDuration;
}

Error NotLeaderError(const std::string& why) {
  return {ErrorCode::kUnavailable, "NotLeader: " + why,
          "call the leader: the Service of the replicas leads to it"};
}

}  // namespace

LeaderElector::LeaderElector(Settings settings, Connect connect)
    : LeaderElector(std::move(settings), std::move(connect), Clocks()) {}

LeaderElector::LeaderElector(Settings settings, Connect connect, Clocks clocks)
    : settings_(std::move(settings)),
      clocks_(std::move(clocks)),
      call_(std::move(connect)),
      jitter_(static_cast<unsigned>(std::hash<std::string>{}(settings_.identity))) {}

std::string LeaderElector::Shown() const { return settings_.name_space + "/" + settings_.name; }

std::string LeaderElector::LeasePath() const {
  return LeasesPath(settings_.name_space) + "/" + settings_.name;
}

std::chrono::milliseconds LeaderElector::Step() {
  Attempt attempt;
  // After a change by another replica, what it wrote is read.
  constexpr int kTries = 2;
  for (int tries = 0; tries < kTries; ++tries) {
    bool again = false;
    attempt = Try(again);
    if (!again) break;
  }
  if (attempt) {
    call_.Drop();
    known_.reset();
  }
  return Note(attempt);
}

LeaderElector::Attempt LeaderElector::Try(bool& again) {
  const Result<Done> connected = call_.Refresh(clocks_.boot());
  if (!connected.ok()) return Failure{connected.error()};
  if (!known_) {
    bool is_absent = false;
    if (Attempt failed = Read(is_absent)) return failed;
    if (is_absent && HasResigned()) return std::nullopt;
    if (is_absent) return Create(again);
  }
  if (known_->holder == settings_.identity) return Renew(again);
  if (!HasResigned() && (IsReleased(*known_) || HasExpired())) return TakeOver(again);
  known_.reset();
  return std::nullopt;
}

LeaderElector::Attempt LeaderElector::Read(bool& is_absent) {
  const auto answer = (*call_)("GET", LeasePath(), "");
  if (!answer.ok()) return Failure{answer.error()};
  is_absent = answer->status == 404;
  if (is_absent) return std::nullopt;
  if (answer->status != 200) return FailureOf(*answer, "get");
  Result<Lease> lease = ParseLease(answer->body);
  if (!lease.ok()) return Failure{lease.error().In(Shown())};
  Observe(*lease);
  known_ = *std::move(lease);
  return std::nullopt;
}

void LeaderElector::Observe(const Lease& lease) {
  const MutexLock lock(mutex_);
  // Another replica has it: whatever was renewed before is over.
  if (lease.holder != settings_.identity) valid_until_ = {};
  if (!observed_ || observed_->version != lease.version) observed_at_ = clocks_.boot();
  observed_ = lease;
  counts_.transitions = lease.transitions;
}

bool LeaderElector::HasExpired() const {
  // The leader does not read how long the duration in the Lease is: a user can have changed it.
  const auto duration = std::max(known_->duration, settings_.lease_duration);
  return clocks_.boot() - observed_at_ >= duration;
}

bool LeaderElector::HasResigned() const {
  const MutexLock lock(mutex_);
  return has_resigned_;
}

std::string LeaderElector::Stamp() {
  // Each write has another time, also if the clock is set back: otherwise it could change nothing,
  // and the others would not see that this replica is alive.
  stamped_ = std::max(clocks_.wall(), stamped_ + std::chrono::microseconds(1));
  return MicroTime(stamped_);
}

LeaseTerm LeaderElector::TermOf(int64_t transitions, const std::string& acquired) {
  std::string renewed = Stamp();
  return {.holder = settings_.identity,
          .duration = settings_.lease_duration,
          .transitions = transitions,
          .acquired = acquired.empty() ? renewed : acquired,
          .renewed = renewed};
}

LeaderElector::Attempt LeaderElector::Create(bool& again) {
  const LeaseTerm term = TermOf(0, "");
  {
    const MutexLock lock(mutex_);
    valid_until_ = {};  // the Lease was deleted
    term_ = Term{.acquired = term.acquired, .is_created = true};
  }
  return Write("POST", NewLease(settings_.name_space, settings_.name, term), again);
}

LeaderElector::Attempt LeaderElector::TakeOver(bool& again) {
  // The API server refuses more than an int32.
  constexpr int64_t kMaxTransitions = std::numeric_limits<int32_t>::max();
  const LeaseTerm term = TermOf(std::min(known_->transitions + 1, kMaxTransitions), "");
  {
    const MutexLock lock(mutex_);
    term_ = Term{.acquired = term.acquired, .is_handed_over = IsReleased(*known_)};
  }
  return Write("PUT", ChangedLease(*known_, term), again);
}

LeaderElector::Attempt LeaderElector::Renew(bool& again) {
  return Write("PUT", ChangedLease(*known_, TermOf(known_->transitions, known_->acquired)), again);
}

LeaderElector::Attempt LeaderElector::Write(const std::string& method, const std::string& body,
                                            bool& again) {
  known_.reset();  // after a failure, it may have been written all the same
  const bool is_new = method == "POST";
  const Time before = clocks_.boot();
  const auto answer =
      (*call_)(method, is_new ? LeasesPath(settings_.name_space) : LeasePath(), body);
  if (!answer.ok()) return Failure{answer.error()};
  if (answer->status == 409 || (answer->status == 404 && !is_new)) {
    again = true;
    return std::nullopt;
  }
  if (answer->status != 200 && answer->status != 201) {
    return FailureOf(*answer, is_new ? "create" : "update");
  }
  Result<Lease> lease = ParseLease(answer->body);
  if (!lease.ok()) return Failure{lease.error().In(Shown())};
  Observe(*lease);
  if (lease->holder == settings_.identity) {
    const MutexLock lock(mutex_);
    Renewed(*lease, before);
  }
  known_ = *std::move(lease);
  return std::nullopt;
}

void LeaderElector::Renewed(const Lease& lease, Time before) {
  // The answer to the write that began the term can have been lost; not known: the safest.
  if (!term_ || term_->acquired != lease.acquired) {
    term_ = Term{.acquired = lease.acquired, .is_created = true};
  }
  if (term_->number == 0) {
    term_->number = ++counts_.terms;
    term_->leads_from = clocks_.boot();
    if (term_->is_created) term_->leads_from += settings_.lease_duration;
  }
  valid_until_ = before + settings_.renew_deadline;
}

LeaderElector::Failure LeaderElector::FailureOf(const apiserver::ApiAnswer& answer,
                                                const std::string& verb) const {
  std::string remedy = apiserver::StatusRemedy(answer);
  if (answer.status == 403) {
    remedy =
        "allow the credential to get, create and update leases.coordination.k8s.io: "
        "config/scheduler/rbac.yaml, with the namespace " +
        settings_.name_space + " and the name " + settings_.name;
  } else if (answer.status == 404) {
    remedy = "create the namespace " + settings_.name_space +
             ", or give another with --leader-elect-resource-namespace";
  }
  return {.error = {ErrorCode::kUnavailable,
                    verb + " Lease " + Shown() + ": " + apiserver::StatusText(answer), remedy},
          .pause = answer.retry_after};
}

milliseconds LeaderElector::Note(const Attempt& attempt) {
  std::optional<Error> before;
  std::string holder;
  uint64_t terms = 0;
  bool has_resigned = false;
  {
    const MutexLock lock(mutex_);
    has_resigned = has_resigned_;
    before = std::exchange(failure_, attempt ? std::optional(attempt->error) : std::nullopt);
    if (attempt) ++counts_.failures;
    terms = counts_.terms;
    if (observed_) holder = observed_->holder;
  }
  if (!attempt && before) {
    spdlog::info("LeaseNotRenewed: resolved");
  } else if (attempt && (!before || *before != attempt->error)) {
    spdlog::warn("LeaseNotRenewed: {}", attempt->error.Text());
  }
  const Result<Leading> leading = LeadingNow();
  if (leading.ok() && !was_leading_) {
    spdlog::info("this replica, {}, is the leader: Lease {}, its term {}", settings_.identity,
                 Shown(), terms);
  } else if (!leading.ok() && was_leading_ && !has_resigned) {
    spdlog::warn("{}", leading.error().Text());
  } else if (!leading.ok() && holder != shown_holder_) {
    spdlog::info("{}", leading.error().message);
  }
  was_leading_ = leading.ok();
  shown_holder_ = holder;
  // Replicas that wait for the same Lease do not ask at the same time.
  std::uniform_real_distribution<double> more(0, kJitter);
  const auto pause =
      std::chrono::duration_cast<milliseconds>(settings_.retry_period * (1 + more(jitter_)));
  // A leader that waited for as long as the API server asks would lose its term.
  if (!attempt || !attempt->pause || leading.ok()) return pause;
  const std::chrono::seconds asked = std::min(*attempt->pause, settings_.lease_duration);
  return std::max<milliseconds>(pause, asked);
}

void LeaderElector::Resign() {
  const MutexLock lock(mutex_);
  has_resigned_ = true;
}

Result<Done> LeaderElector::Release() {
  Resign();
  const Error not_held{
      ErrorCode::kUnavailable, "release Lease " + Shown() + ": this replica does not have it",
      "see its holder: kubectl -n " + settings_.name_space + " get lease " + settings_.name};
  // After a failure, the Lease is read: it is not known what was written.
  if (bool again = false; !known_) {
    if (const Attempt failed = Try(again)) return failed->error;
  }
  if (!known_ || known_->holder != settings_.identity) return not_held;
  {
    // With a Lease that it has created, another replica may lead.
    const MutexLock lock(mutex_);
    if (!term_ || term_->number == 0 || clocks_.boot() < term_->leads_from) return not_held;
  }
  LeaseTerm term = TermOf(known_->transitions, "");
  term.holder.clear();
  term.duration = kReleasedDuration;
  const auto answer = (*call_)("PUT", LeasePath(), ChangedLease(*known_, term));
  known_.reset();
  if (!answer.ok()) return answer.error();
  if (answer->status != 200) return FailureOf(*answer, "release").error;
  return Done{};
}

Error LeaderElector::WhyNotLeader() const {
  std::string why = "the Lease " + Shown() + " has not been read yet";
  if (observed_ && observed_->holder.empty()) {
    why = "no replica has the Lease " + Shown();
  } else if (observed_ && observed_->holder == settings_.identity) {
    why = "this replica could not renew the Lease " + Shown() + " in time";
  } else if (observed_) {
    why = observed_->holder + " has the Lease " + Shown();
  }
  if (!failure_) return NotLeaderError(why);
  return {ErrorCode::kUnavailable, "NotLeader: " + why + ": " + failure_->message,
          failure_->remedy};
}

Result<LeaderElector::Leading> LeaderElector::LeadingAt(Time now) const {
  const MutexLock lock(mutex_);
  if (has_resigned_) return NotLeaderError("this replica ends");
  if (!term_ || term_->number == 0 || now >= valid_until_) return WhyNotLeader();
  if (now < term_->leads_from) {
    const auto wait = std::chrono::ceil<std::chrono::seconds>(term_->leads_from - now);
    return Error{ErrorCode::kUnavailable,
                 "NewLeader: this replica has created the Lease " + Shown() + ", and leads in " +
                     std::to_string(wait.count()) + " s: a former leader has stopped then",
                 "wait; kube-scheduler tries again"};
  }
  return Leading{.term = term_->number, .is_handed_over = term_->is_handed_over};
}

LeaderElector::Counts LeaderElector::GetCounts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

Result<std::string> NewIdentity() {
  std::array<char, 256> host{};
  std::array<unsigned char, 16> bytes{};
  if (gethostname(host.data(), host.size() - 1) != 0 ||
      getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{ErrorCode::kIo, std::string("name this replica: ") + strerror(errno),
                 "see what limits the system calls of this process"};
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string identity = host.data();
  identity += '_';
  for (const unsigned char byte : bytes) identity += {kDigits[byte >> 4], kDigits[byte & 15]};
  return identity;
}

}  // namespace alignd::extender
