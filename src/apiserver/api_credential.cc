#include "apiserver/api_credential.h"

#include <absl/strings/escaping.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::apiserver {
namespace {

using nlohmann::json;

constexpr char kAccountDir[] = "/var/run/secrets/kubernetes.io/serviceaccount";
constexpr size_t kMaxKubeconfigBytes = size_t{1} << 20;

Error Invalid(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

// The value of `key` in `object` as a text; empty if there is none. Errors: it is no text.
Result<std::string> Text(const json& object, const char* key, const std::string& where) {
  const auto value = object.find(key);
  if (value == object.end() || value->is_null()) return std::string();
  if (!value->is_string()) {
    return Invalid(where + "." + key + " is not a string", "correct the kubeconfig");
  }
  return value->get<std::string>();
}

// The member `what` ("cluster") of the entry of `list` ("clusters") with that name.
Result<json> Named(const json& config, const char* list, const char* what,
                   const std::string& name) {
  const auto entries = config.find(list);
  if (entries != config.end() && entries->is_array()) {
    for (const json& entry : *entries) {
      if (!entry.is_object() || entry.value("name", json()) != name) continue;
      if (const auto found = entry.find(what); found != entry.end() && found->is_object()) {
        return *found;
      }
    }
  }
  return Invalid(std::string("the kubeconfig has no ") + what + " \"" + name + "\"",
                 std::string("add it under `") + list +
                     "`, or set another context with kubectl config use-context NAME");
}

// `key` names a file, `key`-data has its content in base64.
Result<Pem> ReadPem(const json& object, const std::string& key, const std::string& where,
                    const std::filesystem::path& directory) {
  const Result<std::string> data = Text(object, (key + "-data").c_str(), where);
  if (!data.ok()) return data.error();
  if (!data->empty()) {
    Pem pem;
    if (!absl::Base64Unescape(*data, &pem.text) || pem.text.empty()) {
      return Invalid(where + "." + key + "-data is not base64", "correct the kubeconfig");
    }
    return pem;
  }
  const Result<std::string> file = Text(object, key.c_str(), where);
  if (!file.ok()) return file.error();
  if (file->empty()) return Pem();
  return Pem{.file = directory / *file};
}

// "https://host:port/prefix" into the credential.
Result<Done> SetServer(std::string_view server, ApiCredential& credential) {
  // Not with a name and password, which a log must not have.
  const size_t at = server.rfind('@');
  const std::string_view shown = at == std::string_view::npos ? server : server.substr(at + 1);
  const Error wrong =
      Invalid("the server \"" + std::string(at == std::string_view::npos ? "" : "...@") +
                  std::string(shown) + "\" of the cluster is not https://HOST[:PORT][/PATH]",
              "correct the kubeconfig: a credential is sent over TLS only");
  constexpr std::string_view kScheme = "https://";
  if (!server.starts_with(kScheme)) return wrong;
  server.remove_prefix(kScheme.size());
  const size_t slash = server.find('/');
  if (slash != std::string_view::npos) {
    credential.prefix = server.substr(slash);
    while (credential.prefix.ends_with('/')) credential.prefix.pop_back();
    server = server.substr(0, slash);
  }
  std::string_view port;
  if (server.starts_with('[')) {  // IPv6
    const size_t end = server.find(']');
    if (end == std::string_view::npos) return wrong;
    credential.host = server.substr(1, end - 1);
    port = server.substr(end + 1);
  } else {
    const size_t colon = server.find(':');
    credential.host = server.substr(0, colon);
    if (colon != std::string_view::npos) port = server.substr(colon);
  }
  if (!port.empty()) {
    if (!port.starts_with(':')) return wrong;
    port.remove_prefix(1);
    const auto [end, problem] =
        std::from_chars(port.data(), port.data() + port.size(), credential.port);
    if (problem != std::errc() || end != port.data() + port.size()) return wrong;
  }
  const bool is_valid = !credential.host.empty() && credential.port > 0 &&
                        credential.port < 65536 &&
                        credential.host.find_first_of("@?# \t\r\n") == std::string::npos &&
                        credential.prefix.find_first_of("?# \t\r\n") == std::string::npos;
  return is_valid ? Result<Done>(Done{}) : Result<Done>(wrong);
}

// Something that would need code of its own, or that is not safe.
Result<Done> RefuseUnsupported(const json& cluster, const json& user) {
  for (const auto& [key, remedy] :
       {std::pair{"proxy-url", "name a kubeconfig whose server is reached without a proxy"},
        std::pair{"tls-server-name",
                  "name a kubeconfig whose server has the name of its certificate"}}) {
    if (cluster.contains(key) && cluster[key] != "") {
      return Invalid(
          std::string("the kubeconfig's cluster has ") + key + ", which is not supported", remedy);
    }
  }
  if (cluster.contains("insecure-skip-tls-verify") &&
      cluster["insecure-skip-tls-verify"] != false) {
    return Invalid(
        "the kubeconfig's cluster has insecure-skip-tls-verify",
        "name the cluster's CA instead: without it, another host could read the credential");
  }
  for (const char* const key : {"exec", "auth-provider", "username", "password", "as"}) {
    if (user.contains(key) && !user[key].is_null() && user[key] != "") {
      return Invalid(std::string("the kubeconfig's user has ") + key + ", which is not supported",
                     "name a kubeconfig with a client certificate or a token, such as that of a "
                     "service account");
    }
  }
  return Done{};
}

}  // namespace

Result<ApiCredential> ParseKubeconfig(const std::string& text,
                                      const std::filesystem::path& directory) {
  const Result<std::string> converted = host::YamlToJson(text);
  if (!converted.ok()) return converted.error();
  const json config = json::parse(*converted, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Invalid("the file is not a kubeconfig", "name a kubeconfig, such as the kubelet's");
  }
  const Result<std::string> current = Text(config, "current-context", "kubeconfig");
  if (!current.ok()) return current.error();
  if (current->empty()) {
    return Invalid("the kubeconfig has no current-context",
                   "set it with kubectl config use-context NAME, or name another kubeconfig");
  }
  const Result<json> context = Named(config, "contexts", "context", *current);
  if (!context.ok()) return context.error();
  const Result<std::string> cluster_name = Text(*context, "cluster", "context");
  if (!cluster_name.ok()) return cluster_name.error();
  const Result<std::string> user_name = Text(*context, "user", "context");
  if (!user_name.ok()) return user_name.error();
  const Result<json> cluster = Named(config, "clusters", "cluster", *cluster_name);
  if (!cluster.ok()) return cluster.error();
  const Result<json> user = Named(config, "users", "user", *user_name);
  if (!user.ok()) return user.error();
  if (const auto supported = RefuseUnsupported(*cluster, *user); !supported.ok()) {
    return supported.error();
  }

  ApiCredential credential;
  const Result<std::string> server = Text(*cluster, "server", "cluster");
  if (!server.ok()) return server.error();
  if (const auto set = SetServer(*server, credential); !set.ok()) return set.error();
  struct Source {
    const json& object;
    const char* key;
    const char* where;
    Pem& pem;
  };
  for (const Source& source : {Source{*cluster, "certificate-authority", "cluster", credential.ca},
                               Source{*user, "client-certificate", "user", credential.certificate},
                               Source{*user, "client-key", "user", credential.key}}) {
    Result<Pem> pem = ReadPem(source.object, source.key, source.where, directory);
    if (!pem.ok()) return pem.error();
    source.pem = *std::move(pem);
  }
  Result<std::string> token = Text(*user, "token", "user");
  if (!token.ok()) return token.error();
  credential.token = *std::move(token);
  const Result<std::string> token_file = Text(*user, "tokenFile", "user");
  if (!token_file.ok()) return token_file.error();
  if (!token_file->empty()) credential.token_file = directory / *token_file;

  if (credential.ca.empty()) {
    return Invalid("the kubeconfig's cluster names no CA",
                   "add certificate-authority or certificate-authority-data");
  }
  if (credential.certificate.empty() != credential.key.empty()) {
    return Invalid("the kubeconfig's user has one of client-certificate and client-key",
                   "add the other");
  }
  if (credential.certificate.empty() && credential.token.empty() && credential.token_file.empty()) {
    return Invalid("the kubeconfig's user has neither a client certificate nor a token",
                   "name a kubeconfig with one of them");
  }
  return credential;
}

Result<ApiCredential> ReadKubeconfig(const std::filesystem::path& path) {
  const Result<std::string> text = host::ReadFile(path, kMaxKubeconfigBytes);
  if (!text.ok()) return text.error();
  Result<ApiCredential> credential = ParseKubeconfig(*text, path.parent_path());
  if (!credential.ok()) return host::ContentError(credential.error(), path);
  return credential;
}

Result<ApiCredential> ServiceAccount(const std::string& address, const std::string& port) {
  const std::filesystem::path directory = kAccountDir;
  ApiCredential credential;
  const bool is_ipv6 = address.find(':') != std::string::npos;
  const std::string server = "https://" + (is_ipv6 ? "[" + address + "]" : address) + ":" + port;
  if (address.empty() || port.empty() || !SetServer(server, credential).ok()) {
    return Invalid("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server",
                   "run it in a pod, or with --kubeconfig");
  }
  credential.ca = {.file = directory / "ca.crt"};
  credential.token_file = directory / "token";
  return credential;
}

Result<ApiCredential> ServiceAccountOfEnvironment() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return ServiceAccount(variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
}

}  // namespace alignd::apiserver
