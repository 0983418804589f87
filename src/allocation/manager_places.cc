// The places of pods that wait, and whether they can still be served: after a change of the
// configuration or of the inventory, and while device plugins are away.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "allocation/allocation_manager.h"
#include "allocation/current_assignment.h"
#include "allocation/exclusive_needs.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

using PlaceClock = std::chrono::steady_clock;

namespace {

// Plugins may announce lists of devices without end: places are checked so often at most.
constexpr std::chrono::milliseconds kBetweenChecks{10};
// Until the next attempt, if many refusals wait for their explanation.
constexpr std::chrono::milliseconds kChecksLater{1000};

bool HasHealthyDevice(const devicemanager::Resource& resource) {
  return std::ranges::any_of(resource.devices,
                             [](const auto& device) { return device.second.healthy; });
}

}  // namespace

std::set<std::string> AllocationManager::AvailableDevices() const {
  const devicemanager::DeviceState& devices = ledger_.state().devices;
  std::set<std::string> available;
  for (const auto& [name, resource] : devices.resources) {
    if (!HasHealthyDevice(resource) || WaitFor(name, devices, plugins_, inventory_)) continue;
    available.insert(name);
  }
  return available;
}

void AllocationManager::RenewPlaces() {
  const admission::NodeState& state = ledger_.state();
  const auto renew = [&](const WaitQueue::Place& place,
                         const std::string& container) -> std::optional<WaitingPod> {
    const WaitQueue::Part& part = place.parts.at(container);
    WaitingPod renewed = place.pod;
    renewed.has_part = HasAssignment(state, place.pod.uid);
    renewed.needs.clear();
    renewed.requested = nullptr;
    if (part.requested == nullptr) return renewed;  // reserves nothing until it is called again
    const Pod pod = AsDecided(node_, state, *part.requested);
    renewed.needs = ExclusiveNeeds(node_, state, pod);
    const bool is_assigned = std::ranges::all_of(pod.containers, [&](const Container& one) {
      return (!container.empty() && one.name != container) ||
             HasAllItRequests(node_, state, pod, one);
    });
    if (is_assigned && renewed.has_part) return std::nullopt;  // the daemon before admitted it
    // Plugins that have not registered yet: their devices are perhaps not known.
    std::ranges::copy_if(part.needs, std::inserter(renewed.needs, renewed.needs.end()),
                         &IsDeviceKind);
    renewed.requested = std::make_shared<const Pod>(pod);
    return renewed;
  };
  waiting_->Renew(PlaceClock::now(), renew);
}

void AllocationManager::CheckPlacesSoon() {
  if (!waiting_ || waiting_->IsEmpty() || std::exchange(check_posted_, true)) return;
  queue_->PostAt(PlaceClock::now() + kBetweenChecks, [this] {
    check_posted_ = false;
    CheckPlaces();
  });
}

void AllocationManager::CheckPlaces() {
  if (stopping_ || std::exchange(is_checking_, true)) return;
  waiting_->SetDevices(AvailableDevices());
  const std::optional<WaitQueue::Check> check = waiting_->NextToCheck();
  const auto done = Posted([this, check](bool fits) { OnPlaceChecked(*check, fits); });
  const PlaceClock::time_point now = PlaceClock::now();
  if (check && explanations_.CheckFits(ledger_.state(), check->requested, now, done)) return;
  is_checking_ = false;
  if (check) queue_->PostAt(now + kChecksLater, [this] { CheckPlacesSoon(); });
}

void AllocationManager::OnPlaceChecked(const WaitQueue::Check& check, bool fits) {
  is_checking_ = false;
  if (waiting_->Checked(check) && !fits) {
    // The callers that were held are refused with the reason.
    for (Caller& caller :
         LeaveQueue(check.uid, check.container, WaitEnd::kCannotFit, /*has_part=*/false)) {
      Start(std::move(caller));
    }
  }
  CheckPlacesSoon();
}

}  // namespace alignd::allocation
