#include "control/decision_history.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <utility>

#include "alignd/base/counted.h"
#include "alignd/checkpoint/go_checksum.h"
#include "control/reports.h"
#include "control/unix_ms.h"
#include "host/file.h"

namespace alignd::control {
namespace {

constexpr std::string_view kFirstWords = "alignd-decisions 1 ";
constexpr size_t kMaxDecisions = allocation::DecisionLog::kCapacity;
// Of the parsed message. A short text can describe a very large one: two bytes make an object.
constexpr size_t kMaxMemory = 16 * kMaxHistoryBytes;
constexpr size_t kPerDecision = 8;  // bytes of its tag and length, at most
constexpr size_t kFirstLine = 64;
// The part of the time in which the thread writes is at most 1/20.
constexpr int kPausePerWrite = 20;
// Free space of the disk that is left to the state files.
constexpr uint64_t kKeptFree = uint64_t{8} * 1024 * 1024;

bool IsPlain(const v1::PodDecision& decision) {
  return decision.containers().empty() && decision.outcome() == "admitted";
}

size_t FileBytes(const v1::PodDecision& decision) { return decision.ByteSizeLong() + kPerDecision; }

void DropOldest(KeptDecisions& decisions, size_t max_bytes) {
  size_t bytes = kFirstLine;
  for (const auto& decision : decisions) bytes += FileBytes(*decision);
  for (const bool only_plain : {true, false}) {
    for (size_t i = decisions.size(); i-- > 0;) {
      if (decisions.size() <= kMaxDecisions && bytes <= max_bytes) return;
      if (only_plain && !IsPlain(*decisions[i])) continue;
      bytes -= FileBytes(*decisions[i]);
      decisions.erase(decisions.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

std::string FirstLine(std::string_view body) {
  return std::string(kFirstWords) + std::to_string(checkpoint::Fnv1a32(body)) + " " +
         std::to_string(body.size()) + "\n";
}

// Protobuf reads no message with a text that is not UTF-8: one would cost the whole file.
bool CanBeRead(const v1::PodDecision& decision) {
  return v1::PodDecision().ParseFromString(decision.SerializeAsString());
}

// The report of a repetition of the same answer.
std::shared_ptr<const v1::PodDecision> Repeated(const v1::PodDecision& report,
                                                const allocation::PodDecision& decision) {
  const auto repeated = std::make_shared<v1::PodDecision>(report);
  repeated->set_time_unix_ms(UnixMs(decision.time));
  repeated->set_times(decision.times);
  return repeated;
}

void WarnOfLeftOut(size_t decisions, const char* why) {
  if (decisions == 0) return;
  spdlog::warn("{} {} not saved for alignctl explain: {}", Counted(decisions, "decision"),
               IsOrAre(decisions), why);
}

Error Damaged(const std::string& what) {
  return {ErrorCode::kCorrupt, what,
          "remove the file: only alignctl explain uses it, and alignd writes it anew"};
}

}  // namespace

std::string FormatDecisions(KeptDecisions decisions, size_t max_bytes) {
  DropOldest(decisions, max_bytes);
  v1::ExplainResponse message;
  for (const auto& decision : decisions) *message.add_decisions() = *decision;
  const std::string body = message.SerializeAsString();
  return FirstLine(body) + body;
}

Result<KeptDecisions> ParseDecisions(std::string_view text) {
  const size_t end = text.substr(0, kFirstLine).find('\n');
  if (end == std::string_view::npos || !text.starts_with(kFirstWords)) {
    return Damaged("the first line is not that of saved decisions in format 1");
  }
  const std::string_view body = text.substr(end + 1);
  const std::string expected = FirstLine(body);
  if (text.substr(0, end + 1) != expected) {
    return Damaged("checksum or size do not match the content, which needs `" +
                   expected.substr(0, expected.size() - 1) + "`");
  }
  v1::ExplainResponse message;
  if (body.size() > kMaxHistoryBytes ||
      !message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return Damaged("the content is not a list of decisions");
  }
  if (static_cast<size_t>(message.decisions_size()) > kMaxDecisions ||
      message.SpaceUsedLong() > kMaxMemory) {
    return Damaged("there are more decisions, or larger ones, than alignd saves");
  }
  KeptDecisions decisions;
  for (v1::PodDecision& decision : *message.mutable_decisions()) {
    decisions.push_back(std::make_shared<const v1::PodDecision>(std::move(decision)));
  }
  return decisions;
}

DecisionHistory::DecisionHistory(std::filesystem::path file, const admission::Node& node,
                                 const Settings& settings, host::FileCalls& calls)
    : file_(std::move(file)),
      node_(node),
      settings_(settings),
      calls_(calls),
      before_(Load()),
      pause_(settings.delay) {}

KeptDecisions DecisionHistory::Load() const {
  if (const Result<Done> clean = host::RemoveTemporary(file_, calls_); !clean.ok()) {
    spdlog::warn("decisions for alignctl explain: {}", clean.error().Text());
  }
  const Result<std::string> text = host::ReadFile(file_, kMaxHistoryBytes);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return {};
  Result<KeptDecisions> read =
      text.ok() ? ParseDecisions(*text) : Result<KeptDecisions>(text.error());
  if (read.ok()) return *std::move(read);
  const std::filesystem::path aside = file_.string() + ".damaged";
  const Error why = text.ok() ? read.error().In("read " + file_.string()) : read.error();
  if (calls_.Rename(file_.c_str(), aside.c_str()) == 0) {
    spdlog::warn(
        "alignctl explain does not know the decisions before this start: {}; the file is now {}. "
        "Assignments are not affected",
        why.message, aside.string());
  } else {
    spdlog::error(
        "alignctl explain does not know the decisions before this start: {}; remove {}, which "
        "cannot be renamed to {}. Assignments are not affected",
        why.message, file_.string(), aside.string());
  }
  return {};
}

std::string DecisionHistory::NameBefore(const std::string& pod_uid) const {
  const auto newest = std::ranges::find(
      before_, pod_uid, [](const auto& decision) -> const auto& { return decision->pod_uid(); });
  if (newest == before_.end() || (*newest)->pod_name().empty()) return "";
  return (*newest)->pod_namespace() + "/" + (*newest)->pod_name();
}

void DecisionHistory::Follow(allocation::AllocationManager& allocation) {
  log_ = &allocation.decisions();
  allocation.OnDecision([this] { Changed(); });
}

std::string DecisionHistory::WhyNotSaved() const {
  const MutexLock lock(mutex_);
  return why_not_saved_;
}

void DecisionHistory::Changed() {
  if (is_due_.exchange(true)) return;
  const bool taken = queue_.PostAt(Clock::now() + pause_.load(), [this] {
    if (is_due_) Write();  // else Stop has written it
  });
  // Without a thread, the next decision tries again.
  if (!taken) is_due_ = false;
}

void DecisionHistory::Stop() {
  until_ = Clock::now() + settings_.last;
  // If it lacks a thread, no write was posted.
  queue_.Post([this] {
    if ((is_due_ || has_repeats_) && log_ != nullptr) Write();
  });
  queue_.Stop();
}

void DecisionHistory::Write() {
  is_due_ = false;  // what is decided from here on is written later
  const Clock::time_point begun = Clock::now();
  const std::vector<Decision> decisions = log_->Newest("", kMaxDecisions);
  if (MayWait(decisions)) return;
  const Result<Done> written = Save(FormatDecisions(Explain(decisions), settings_.max_bytes));
  const auto took = std::chrono::duration_cast<Milliseconds>(Clock::now() - begun);
  pause_ = std::max(settings_.delay, took * kPausePerWrite);
  {
    const MutexLock lock(mutex_);
    why_not_saved_ = written.ok() ? "" : written.error().Text();
  }
  if (written.ok()) {
    if (has_failed_) spdlog::info("the decisions for alignctl explain are saved again");
    has_failed_ = false;
    has_repeats_ = false;
    written_ = Clock::now();
    return;
  }
  if (!has_failed_) {
    spdlog::warn(
        "the decisions for alignctl explain are not saved, and a restart of alignd loses them: {}",
        written.error().Text());
  }
  has_failed_ = true;
  pause_ = std::max(settings_.retry, pause_.load());
  Changed();
}

Result<Done> DecisionHistory::Save(const std::string& text) const {
  // The state files are on the same disk, and pods that wait for them are not admitted.
  if (!host::HasFreeBytes(file_.parent_path(), kKeptFree + text.size(), calls_)) {
    return Error{ErrorCode::kIo,
                 "write " + file_.string() + ": too little free space; " +
                     std::to_string(kKeptFree >> 20) + " MiB are kept for the state files",
                 "free space on this file system"};
  }
  return host::ReplaceFile(file_, text, calls_);
}

bool DecisionHistory::MayWait(const std::vector<Decision>& decisions) {
  const bool is_stopping = until_.load() != Clock::time_point::max();
  if (is_stopping || has_failed_ || !written_) return false;
  const Clock::time_point due = *written_ + settings_.repeats;
  if (Clock::now() >= due) return false;
  for (const Decision& decision : decisions) {
    if (Find(decision) == explained_.end()) return false;
  }
  if (!std::exchange(has_repeats_, true)) {
    queue_.PostAt(due, [this] {
      if (has_repeats_) Write();
    });
  }
  return true;
}

DecisionHistory::Explained::const_iterator DecisionHistory::Find(const Decision& decision) const {
  const auto found = explained_.find(decision);
  if (found != explained_.end() || decision->times == 1) return found;
  return std::ranges::find_if(explained_, [&](const auto& entry) {
    return allocation::SameAnswer(*entry.first, *decision) &&
           entry.first->refusal == decision->refusal &&
           entry.first->available == decision->available;
  });
}

KeptDecisions DecisionHistory::Explain(const std::vector<Decision>& decisions) {
  KeptDecisions reports;
  size_t skipped = 0;
  size_t unreadable = 0;
  Explained explained;
  for (const Decision& decision : decisions) {
    std::shared_ptr<const v1::PodDecision> report;
    if (const auto known = Find(decision); known != explained_.end()) {
      report = known->second;
      if (report != nullptr && known->first != decision) report = Repeated(*report, *decision);
    } else if (Clock::now() < until_.load()) {
      report = std::make_shared<const v1::PodDecision>(ReportDecision(node_, *decision));
      if (!CanBeRead(*report)) report = nullptr;
    } else {
      ++skipped;
      continue;
    }
    explained.emplace(decision, report);
    if (report == nullptr) {
      ++unreadable;
    } else {
      reports.push_back(std::move(report));
    }
  }
  explained_ = std::move(explained);
  WarnOfLeftOut(skipped, "alignd stops");
  WarnOfLeftOut(unreadable, "their texts are not UTF-8");
  reports.insert(reports.end(), before_.begin(), before_.end());
  return reports;
}

}  // namespace alignd::control
