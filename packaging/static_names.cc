// Of the static programs that resolve names of API servers. A static program would load the modules
// that /etc/nsswitch.conf names, and with them the C library of the system, which may be another
// one. These two services are in the program itself: /etc/hosts, and the servers of
// /etc/resolv.conf.
#include <nss.h>

namespace {

[[gnu::constructor]] void UseBuiltInServices() { __nss_configure_lookup("hosts", "files dns"); }

}  // namespace
