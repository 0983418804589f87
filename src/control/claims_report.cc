#include "control/claims_report.h"

#include <set>
#include <string>
#include <vector>

#include "control/readable.h"

namespace alignd::control {
namespace {

using dra::ContainerClaims;
using Devices = google::protobuf::RepeatedPtrField<v1::ClaimedDevice>;

// Collects the devices, so that the files that say where they are are read once for all.
class Claimed {
 public:
  void Add(const std::vector<ContainerClaims::Device>& devices, Devices& into) {
    for (const auto& [claim, device] : devices) {
      v1::ClaimedDevice& added = *into.Add();
      added.set_claim(Readable(claim));
      added.set_driver(Readable(device.driver));
      added.set_pool(Readable(device.pool));
      added.set_name(Readable(device.name));
      entries_.push_back(&added);
      devices_.push_back(device);
    }
  }

  void Locate(const dra::Places& places) {
    const std::vector<Result<dra::Location>> located = dra::LocateEach(places, devices_);
    for (size_t i = 0; i < located.size(); ++i) {
      if (!located[i].ok()) {
        entries_[i]->set_note(Readable(located[i].error().message));
        continue;
      }
      entries_[i]->mutable_numa()->Assign(located[i]->numa.begin(), located[i]->numa.end());
      entries_[i]->set_note(Readable(located[i]->note));
    }
  }

 private:
  std::vector<v1::ClaimedDevice*> entries_;
  std::vector<dra::PreparedDevice> devices_;
};

}  // namespace

void AddClaimedDevices(const ReportSources& sources, v1::ListPodsResponse& report) {
  if (!sources.claims) return;
  const Result<ContainerClaims> claims = sources.claims();
  if (!claims.ok()) return report.set_claims_error(Readable(claims.error().Text()));
  Claimed claimed;
  for (v1::PodReport& pod : *report.mutable_pods()) {
    std::set<std::string> containers;
    for (v1::ContainerAssignment& container : *pod.mutable_containers()) {
      containers.insert(container.container());
      claimed.Add(claims->DevicesOf({pod.pod_uid(), container.container()}),
                  *container.mutable_claimed_devices());
    }
    claimed.Add(claims->Others(pod.pod_uid(), containers), *pod.mutable_claimed_devices());
  }
  claimed.Locate(sources.claim_places);
}

}  // namespace alignd::control
