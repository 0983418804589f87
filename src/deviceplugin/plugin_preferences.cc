#include "deviceplugin/plugin_preferences.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "deviceplugin/checks.h"

namespace alignd::deviceplugin {

PluginPreferences::PluginPreferences(std::string resource, std::chrono::milliseconds pause)
    : resource_(std::move(resource)), pause_(pause) {}

bool PluginPreferences::IsSkipped(std::chrono::milliseconds within) const {
  const Clock::time_point now = Clock::now();
  return std::any_of(skipped_until_.lower_bound(within), skipped_until_.end(),
                     [&](const auto& late) { return now < late.second; });
}

void PluginPreferences::Ask(PluginConnection& plugin, const devicemanager::PreferenceQuery& query,
                            std::chrono::milliseconds within, Given given) {
  auto question = std::make_shared<Question>(Question{query, within, Clock::now(), {}});
  {
    const MutexLock lock(mutex_);
    if (!IsSkipped(within)) {
      question->given = std::exchange(given, nullptr);
      open_.insert(question);
    }
  }
  if (given) return given(std::nullopt);
  plugin.GetPreferredAllocation(query, within,
                                [self = shared_from_this(), question](
                                    const Result<v1beta1::PreferredAllocationResponse>& response) {
                                  self->OnAnswer(question, response);
                                });
}

void PluginPreferences::OnAnswer(const std::shared_ptr<Question>& question,
                                 const Result<v1beta1::PreferredAllocationResponse>& response) {
  if (!response.ok() && response.error().code == ErrorCode::kDeadlineExceeded) {
    for (const Given& given : OnLate(*question)) given(std::nullopt);
    return;
  }
  std::optional<std::vector<std::string>> preferred;
  if (response.ok()) {
    OnInTime(*question);
    std::string complaint;
    preferred = CheckPreferred(question->query, *response, complaint);
    if (!complaint.empty()) spdlog::warn("{}: GetPreferredAllocation: {}", resource_, complaint);
    if (preferred->empty()) preferred.reset();
  } else {
    spdlog::warn("no preference: {}", response.error().message);
  }
  Given given;
  {
    const MutexLock lock(mutex_);
    open_.erase(question);
    given = std::exchange(question->given, nullptr);
  }
  if (given) given(std::move(preferred));
}

PluginPreferences::Waiting PluginPreferences::OnLate(const Question& question) {
  Waiting go_on;
  bool was_known = false;
  {
    const MutexLock lock(mutex_);
    was_known = skipped_until_.lower_bound(question.within) != skipped_until_.end();
    skipped_until_[question.within] = Clock::now() + pause_;
    for (auto other = open_.begin(); other != open_.end();) {
      if ((*other)->within > question.within) {
        ++other;
        continue;
      }
      go_on.push_back(std::exchange((*other)->given, nullptr));
      other = open_.erase(other);
    }
  }
  if (!was_known) {
    spdlog::warn(
        "{}: the device plugin returned no preference within {} ms; for the next {} s, callers "
        "with "
        "this deadline or a shorter one skip it; check the plugin's pod",
        resource_, question.within.count(),
        std::chrono::duration_cast<std::chrono::seconds>(pause_).count());
  }
  return go_on;
}

void PluginPreferences::OnInTime(const Question& question) {
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - question.asked);
  bool was_late = false;
  {
    const MutexLock lock(mutex_);
    const auto slower = skipped_until_.lower_bound(took);
    was_late = slower != skipped_until_.end();
    skipped_until_.erase(slower, skipped_until_.end());
  }
  if (was_late) {
    spdlog::info("{}: the device plugin returns preferences in time again ({} ms)", resource_,
                 took.count());
  }
}

}  // namespace alignd::deviceplugin
