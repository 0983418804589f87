#include "daemon/sd_notify.h"

#include <systemd/sd-daemon.h>

namespace alignd::daemon {

void NotifySystemd(const std::string& state) { sd_notify(/*unset_environment=*/0, state.c_str()); }

}  // namespace alignd::daemon
