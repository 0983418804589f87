// The services of the node, for a handover.
#pragma once

#include <string>

#include "alignd/base/result.h"

namespace alignd::moving {

// Each call waits until it is done. Tests derive from it to make any call fail.
class Services {
 public:
  virtual ~Services() = default;

  // Errors: kIo, with what the service manager says.
  virtual Result<bool> IsActive(const std::string& unit) = 0;
  // Whether it neither runs nor is about to: not while it starts, stops, or waits for its restart.
  virtual Result<bool> IsStopped(const std::string& unit) = 0;
  virtual Result<Done> Start(const std::string& unit) = 0;  // it runs already: no error
  virtual Result<Done> Stop(const std::string& unit) = 0;   // it does not, or is none: likewise
  virtual Result<Done> ReloadUnits() = 0;
};

// systemd's, by systemctl.
class Systemd final : public Services {
 public:
  Result<bool> IsActive(const std::string& unit) override;
  Result<bool> IsStopped(const std::string& unit) override;
  Result<Done> Start(const std::string& unit) override;
  Result<Done> Stop(const std::string& unit) override;
  Result<Done> ReloadUnits() override;
};

// Of another root directory, where nothing runs: all are stopped. Errors: whatever changes them.
class NoServices final : public Services {
 public:
  Result<bool> IsActive(const std::string& unit) override;
  Result<bool> IsStopped(const std::string& unit) override;
  Result<Done> Start(const std::string& unit) override;
  Result<Done> Stop(const std::string& unit) override;
  Result<Done> ReloadUnits() override;
};

}  // namespace alignd::moving
