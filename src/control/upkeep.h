// The upkeep log as a plain value, to and from the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/control/v1/control.pb.h"
#include "allocation/upkeep_log.h"

namespace alignd::control {

// What is meaningless for one kind of note is empty. Times are in milliseconds since 1970.
struct UpkeepNote {
  int64_t first_unix_ms = 0;
  int64_t last_unix_ms = 0;
  uint64_t times = 1;
  std::string container_id;
  std::string pod_uid;
  std::string container;
  std::string was;
  std::string should;
  int64_t lasted_ms = 0;
  std::string text;
  std::string cure;
  int64_t noticed_ms = 0;
  std::string pod;

  friend bool operator==(const UpkeepNote&, const UpkeepNote&) = default;
};

struct Upkeep {
  uint64_t repairs = 0;
  std::vector<UpkeepNote> last_repairs;
  std::vector<UpkeepNote> failed_updates;
  std::vector<UpkeepNote> throttled_pods;
  std::vector<UpkeepNote> other_managers;
  std::optional<UpkeepNote> runtime_outage;
  std::vector<UpkeepNote> unplaced;
  std::vector<UpkeepNote> past_mirror;

  friend bool operator==(const Upkeep&, const Upkeep&) = default;
};

Upkeep ReportUpkeep(const allocation::UpkeepReport& report);

v1::Upkeep ToWire(const Upkeep& upkeep);
Upkeep FromWire(const v1::Upkeep& message);

}  // namespace alignd::control
