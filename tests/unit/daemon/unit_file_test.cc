// The systemd units permit what alignd does.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/options.h"
#include "host/file.h"
#include "rpc/unix_socket.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

// The values of each setting, in order; sections are ignored.
std::map<std::string, std::vector<std::string>> UnitFile(const std::string& name) {
  const Result<std::string> text = host::ReadFile(fs::path(ALIGND_SOURCE_DIR) / "systemd" / name);
  EXPECT_TRUE(text.ok()) << text.error().Text();
  std::map<std::string, std::vector<std::string>> settings;
  std::istringstream lines(text.ok() ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    settings[line.substr(0, equals)].push_back(line.substr(equals + 1));
  }
  return settings;
}

// With ProtectSystem=strict, all other paths below / are read-only, except /dev, /proc and /sys.
bool MayWrite(std::map<std::string, std::vector<std::string>> unit, const fs::path& path) {
  std::vector<fs::path> writable;
  for (const std::string& name : unit["StateDirectory"]) writable.push_back("/var/lib/" + name);
  for (const std::string& name : unit["RuntimeDirectory"]) writable.push_back("/run/" + name);
  for (const std::string& name : unit["ReadWritePaths"]) {
    writable.emplace_back(name.starts_with('-') ? name.substr(1) : name);
  }
  return std::ranges::any_of(writable, [&path](const fs::path& directory) {
    return !path.lexically_relative(directory).native().starts_with("..");
  });
}

TEST(UnitFile, ServiceMayWriteItsFiles) {
  const auto unit = UnitFile("alignd.service");
  ASSERT_EQ(unit.at("ProtectSystem"), std::vector<std::string>{"strict"});
  EXPECT_FALSE(MayWrite(unit, "/var/lib/kubelet/device-plugins"));  // only read
  const Options options;
  for (const fs::path& path :
       {options.state_dir, options.DevicePluginDir(), options.PluginsRegistry(),
        options.kubelet_plugins_registry, fs::path(*rpc::SocketPath(options.listen)),
        fs::path(*rpc::SocketPath(options.ControlSocket())),
        fs::path(*rpc::SocketPath(options.PodResourcesSocket()))}) {
    EXPECT_TRUE(MayWrite(unit, path)) << path;
  }
  // The quota of pods with exclusive CPUs: cgroup/pod_quota.h.
  EXPECT_FALSE(options.keep_pod_cpu_quota);
  EXPECT_EQ(unit.at("ProtectControlGroups"), std::vector<std::string>{"no"});
}

TEST(UnitFile, ServiceMayListenOnLoopbackAndNowhereElse) {
  EXPECT_TRUE(Options().metrics_address.starts_with("127.0.0.1:"));
  const auto unit = UnitFile("alignd.service");
  EXPECT_EQ(unit.at("PrivateNetwork"), std::vector<std::string>{"no"});  // it has another loopback
  EXPECT_EQ(unit.at("IPAddressDeny"), std::vector<std::string>{"any"});
  EXPECT_EQ(unit.at("IPAddressAllow"), std::vector<std::string>{"localhost"});
  EXPECT_EQ(unit.at("RestrictAddressFamilies"),
            std::vector<std::string>{"AF_UNIX AF_INET AF_INET6"});
}

TEST(UnitFile, SocketListensAtTheDefaultPath) {
  EXPECT_EQ(UnitFile("alignd.socket").at("ListenStream"),
            std::vector<std::string>{*rpc::SocketPath(Options().listen)});
}

// Without these settings, standard output is the journal, and --log-format auto chooses it.
TEST(UnitFile, ServiceLogsToTheJournal) {
  EXPECT_EQ(Options().log_format, "auto");
  const auto unit = UnitFile("alignd.service");
  EXPECT_EQ(unit.at("StandardOutput"), std::vector<std::string>{"journal"});
  EXPECT_NE(unit.at("RestrictAddressFamilies").front().find("AF_UNIX"), std::string::npos);
}

}  // namespace
}  // namespace alignd::daemon
