// Certificates for tests of TLS.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "edge/process.h"

namespace alignd::events {

// A CA, a certificate of a server at 127.0.0.1, and one of a client.
class Certificates {
 public:
  explicit Certificates(const std::filesystem::path& directory) : directory_(directory) {
    std::filesystem::create_directories(directory);
    Make("ca", "", "");
    Make("server", "ca", "subjectAltName=IP:127.0.0.1");
    Make("elsewhere", "ca", "subjectAltName=IP:10.0.0.1");
    Make("client", "ca", "extendedKeyUsage=clientAuth");
    Make("other-ca", "", "");
  }

  std::string Path(const std::string& file) const { return (directory_ / file).string(); }

 private:
  void Make(const std::string& name, const std::string& ca, const std::string& extension) const {
    std::string command = "cd " + directory_.string() +
                          " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
                          " -days 2 -subj /CN=" +
                          name + " -keyout " + name + ".key -out " + name + ".crt";
    if (!ca.empty()) command += " -CA " + ca + ".crt -CAkey " + ca + ".key -addext " + extension;
    ASSERT_EQ(std::system((command + " 2>openssl.log").c_str()), 0)
        << testing::ReadText(directory_ / "openssl.log");
  }

  const std::filesystem::path directory_;
};

}  // namespace alignd::events
