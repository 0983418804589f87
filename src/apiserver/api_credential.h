// How the API server is reached, and with which identity: from a kubeconfig, or as a pod.
#pragma once

#include <filesystem>
#include <string>

#include "alignd/base/result.h"

namespace alignd::apiserver {

// A certificate or a key in PEM: in a file, which may be replaced while this program runs (the
// kubelet renews its certificate), or in the kubeconfig itself. Both empty: none.
struct Pem {
  std::filesystem::path file = {};
  std::string text = {};

  bool empty() const { return file.empty() && text.empty(); }
};

// A value.
struct ApiCredential {
  std::string host;
  int port = 443;
  std::string prefix;  // of every path: "" or "/k8s/clusters/c-1"
  Pem ca;
  Pem certificate;  // with `key`; or none
  Pem key;
  std::filesystem::path token_file;
  std::string token;  // if there is no file
};

// Reads a kubeconfig: the current context's cluster and user. Relative paths in it are relative to
// its directory.
// Errors: of host::ReadFile; kInvalidArgument if something is missing, or is not supported: servers
// without TLS or without a named CA, commands that fetch credentials (exec), passwords, proxies.
Result<ApiCredential> ReadKubeconfig(const std::filesystem::path& path);

// The same for its text. `directory`: of the file.
Result<ApiCredential> ParseKubeconfig(const std::string& text,
                                      const std::filesystem::path& directory);

// The service account of the pod in which this program runs. `address` and `port`: of the API
// server (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT). Errors: kInvalidArgument if they are
// none.
Result<ApiCredential> ServiceAccount(const std::string& address, const std::string& port);

// The same with the address of the environment.
Result<ApiCredential> ServiceAccountOfEnvironment();

}  // namespace alignd::apiserver
