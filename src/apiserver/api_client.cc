#include "apiserver/api_client.h"

#include <httplib.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apiserver/object_json.h"
#include "host/descriptor.h"
#include "host/file.h"

namespace alignd::apiserver {
namespace {

constexpr size_t kMaxPemBytes = size_t{1} << 20;
constexpr size_t kMaxTokenBytes = size_t{64} << 10;

// Files of the library's interface, for content that is in none, and for a copy of one that may be
// replaced between two reads of it.
class PemFiles {
 public:
  // The path of a file with that content. Errors: of reading `pem`; kIo.
  Result<std::string> Add(const Pem& pem) {
    std::string text = pem.text;
    if (!pem.file.empty()) {
      Result<std::string> read = host::ReadFile(pem.file, kMaxPemBytes);
      if (!read.ok()) return read.error();
      text = *std::move(read);
    }
    host::Descriptor file(memfd_create("pem", MFD_CLOEXEC));
    if (file.fd() < 0) return Failed();
    for (size_t written = 0; written < text.size();) {
      const ssize_t size = write(file.fd(), text.data() + written, text.size() - written);
      if (size < 0) return Failed();
      written += static_cast<size_t>(size);
    }
    const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
    files_.push_back(std::move(file));
    return path;
  }

 private:
  static Error Failed() {
    return {ErrorCode::kIo, std::string("keep a certificate in memory: ") + strerror(errno),
            "see what limits this process's memory or open files"};
  }

  std::vector<host::Descriptor> files_;
};

struct Connection {
  PemFiles files;
  std::unique_ptr<httplib::SSLClient> client;
  httplib::Headers headers;
};

// GET has no body.
httplib::Result Sent(Connection& connection, const std::string& method, const std::string& path,
                     const std::string& body) {
  constexpr char kJson[] = "application/json";
  if (method == "GET") return connection.client->Get(path, connection.headers);
  if (method == "PUT") return connection.client->Put(path, connection.headers, body, kJson);
  if (method == "PATCH") {
    return connection.client->Patch(path, connection.headers, body, "application/merge-patch+json");
  }
  return connection.client->Post(path, connection.headers, body, kJson);
}

// Of the header Retry-After, in seconds; nullopt: there is none, or it is a date.
std::optional<std::chrono::seconds> RetryAfter(const httplib::Response& answer) {
  const std::string text = answer.get_header_value("Retry-After");
  int64_t seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, seconds);
  if (text.empty() || problem != std::errc() || stop != end || seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

std::string Address(const ApiCredential& credential) {
  return credential.host + " port " + std::to_string(credential.port);
}

std::string Describe(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "it accepts no connection";
    case httplib::Error::ConnectionTimeout:
      return "it did not accept a connection in time";
    case httplib::Error::Read:
      return "it ended the connection, or gave no whole answer in time";
    case httplib::Error::Write:
      return "the connection ended before the whole request";
    case httplib::Error::SSLConnection:
      return "the TLS handshake failed";
    default:
      return httplib::to_string(error);
  }
}

Error NoAnswer(const ApiCredential& credential, httplib::Error error) {
  std::string why =
      "no answer of the API server at " + Address(credential) + ": " + Describe(error);
  std::string remedy = "see whether the API server runs and can be reached from this node";
  if (error == httplib::Error::SSLServerVerification) {
    why += " (its certificate is not of the credential's CA, or not of this host)";
    remedy =
        "see certificate-authority and server of the kubeconfig, or ca.crt of the service account";
  }
  return {ErrorCode::kUnavailable, why, remedy};
}

// The bearer token; empty: the credential has none. Without it, the API server would take the call
// for one of system:anonymous.
Result<std::string> TokenOf(const ApiCredential& credential) {
  constexpr char kSpace[] = " \t\r\n";
  const bool has_file = !credential.token_file.empty();
  if (!has_file && credential.token.empty()) return std::string();
  std::string token = credential.token;
  if (has_file) {
    Result<std::string> read = host::ReadFile(credential.token_file, kMaxTokenBytes);
    if (!read.ok()) return read.error();
    token = *std::move(read);
  }
  const std::string name =
      has_file ? credential.token_file.string() : "the token of the kubeconfig";
  const size_t begin = token.find_first_not_of(kSpace);
  if (begin == std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, name + ": the token is empty",
                 "write the token again, or name another credential"};
  }
  token = token.substr(begin, token.find_last_not_of(kSpace) + 1 - begin);
  if (token.find_first_of(kSpace) != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, name + ": the token has white space or several lines",
                 "write the token alone, on one line"};
  }
  return token;
}

// `path`: with the content of `ca`. OpenSSL would refuse each server, and not say why.
Result<Done> CheckCa(const std::string& path, const Pem& ca) {
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(path.c_str(), "r"), &BIO_free);
  if (file == nullptr) {
    ERR_clear_error();
    return Error{ErrorCode::kIo, "cannot read " + path + ", which has the CA of the API server",
                 "mount /proc where this program runs: OpenSSL reads credentials below it"};
  }
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), &X509_free);
  ERR_clear_error();
  if (certificate != nullptr) return Done{};
  const std::string name =
      ca.file.empty() ? "certificate-authority-data of the kubeconfig" : ca.file.string();
  return Error{ErrorCode::kInvalidArgument, name + ": has no certificate of a CA in PEM",
               "give the CA of the API server: -----BEGIN CERTIFICATE-----..."};
}

Result<std::shared_ptr<Connection>> Prepare(const ApiCredential& credential,
                                            const std::string& user_agent,
                                            std::chrono::seconds connect,
                                            std::chrono::seconds answer) {
  const Result<std::string> token = TokenOf(credential);
  if (!token.ok()) return token.error();
  const auto connection = std::make_shared<Connection>();
  const Result<std::string> ca = connection->files.Add(credential.ca);
  if (!ca.ok()) return ca.error();
  if (const auto checked = CheckCa(*ca, credential.ca); !checked.ok()) return checked.error();
  Result<std::string> certificate = std::string();
  Result<std::string> key = std::string();
  if (!credential.certificate.empty()) {
    certificate = connection->files.Add(credential.certificate);
    if (!certificate.ok()) return certificate.error();
    key = connection->files.Add(credential.key);
    if (!key.ok()) return key.error();
  }

  connection->client =
      std::make_unique<httplib::SSLClient>(credential.host, credential.port, *certificate, *key);
  httplib::SSLClient& client = *connection->client;
  if (!client.is_valid()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the client certificate or its key cannot be used for the API server",
                 "see client-certificate and client-key of the kubeconfig: both in PEM, and of "
                 "each other"};
  }
  client.set_ca_cert_path(ca->c_str());
  // OpenSSL checks the host, beside the library: by alternative names only, and all of an address.
  X509_VERIFY_PARAM* const checks = SSL_CTX_get0_param(client.ssl_context());
  X509_VERIFY_PARAM_set_hostflags(
      checks, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_ip_asc(checks, credential.host.c_str()) != 1 &&
      X509_VERIFY_PARAM_set1_host(checks, credential.host.c_str(), 0) != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "\"" + credential.host + "\" is not the name or address of an API server",
                 "correct the server in the kubeconfig"};
  }
  client.enable_server_certificate_verification(true);
  client.set_connection_timeout(connect.count());
  client.set_read_timeout(answer.count());  // without a byte
  client.set_write_timeout(connect.count());
  client.set_keep_alive(true);
  client.set_follow_location(false);
  connection->headers = {{"Accept", "application/json"}, {"User-Agent", user_agent}};
  if (!token->empty()) connection->headers.emplace("Authorization", "Bearer " + *token);
  return connection;
}

// A connection that was lost without a sign is noticed after about 25 s. Where the kernel refuses
// an option, it is noticed when nothing has arrived for the time of Prepare.
void KeepAlive(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

constexpr size_t kMaxErrorBytes = size_t{64} << 10;

class HttpReader final : public ApiReader {
 public:
  HttpReader(std::shared_ptr<Connection> connection, ApiCredential credential)
      : connection_(std::move(connection)), credential_(std::move(credential)) {
    connection_->client->set_socket_options(KeepAlive);
  }

  Result<ApiAnswer> Get(const std::string& path, const Receive& receive) override {
    if (has_stopped_.load()) return Stopped();
    ApiAnswer answer;
    bool is_enough = false;
    const httplib::Result result = connection_->client->Get(
        credential_.prefix + path, connection_->headers,
        [&](const httplib::Response& head) {
          answer.status = head.status;
          answer.retry_after = RetryAfter(head);
          return !has_stopped_.load();
        },
        [&](const char* data, size_t size) {
          if (has_stopped_.load()) return false;
          if (answer.status == 200) {
            is_enough = !receive(std::string_view(data, size));
            return !is_enough;
          }
          answer.body.append(data, std::min(size, kMaxErrorBytes - answer.body.size()));
          return true;
        });
    if (has_stopped_.load()) return Stopped();
    if (!result && !is_enough) return NoAnswer(credential_, result.error());
    return answer;
  }

  void Stop() override {
    has_stopped_.store(true);
    connection_->client->stop();
  }

 private:
  static Error Stopped() { return {ErrorCode::kUnavailable, "the program ends", "start it again"}; }

  const std::shared_ptr<Connection> connection_;
  const ApiCredential credential_;
  std::atomic<bool> has_stopped_ = false;
};

}  // namespace

std::string StatusText(const ApiAnswer& answer) {
  std::string text = "the API server answers " + std::to_string(answer.status);
  const nlohmann::json status = ParsedObject(answer.body);
  const nlohmann::json* const message = MemberIn(status, "message");
  if (message != nullptr && message->is_string()) text += ": " + message->get<std::string>();
  return text;
}

std::string StatusRemedy(const ApiAnswer& answer) {
  if (answer.status == 401) return "renew the token or certificate of the credential";
  if (answer.status == 429 || answer.status >= 500) {
    return "see why the API server is busy; the call can be repeated";
  }
  return "see the API server's log";
}

Result<ApiCall> ConnectTo(const ApiCredential& credential, const std::string& user_agent,
                          std::chrono::seconds patience) {
  Result<std::shared_ptr<Connection>> prepared =
      Prepare(credential, user_agent, patience, patience);
  if (!prepared.ok()) return prepared.error();
  return ApiCall(
      [connection = *prepared, credential](const std::string& method, const std::string& path,
                                           const std::string& body) -> Result<ApiAnswer> {
        const httplib::Result answer = Sent(*connection, method, credential.prefix + path, body);
        if (!answer) return NoAnswer(credential, answer.error());
        return ApiAnswer{answer->status, answer->body, RetryAfter(*answer)};
      });
}

Result<std::unique_ptr<ApiReader>> ReaderFor(const ApiCredential& credential,
                                             const std::string& user_agent,
                                             std::chrono::seconds silence) {
  Result<std::shared_ptr<Connection>> prepared =
      Prepare(credential, user_agent, kApiPatience, silence);
  if (!prepared.ok()) return prepared.error();
  return std::unique_ptr<ApiReader>(std::make_unique<HttpReader>(*std::move(prepared), credential));
}

}  // namespace alignd::apiserver
