#include "apiserver/api_credential.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "apiserver/api_client.h"
#include "edge/fake_tree.h"

namespace alignd::apiserver {
namespace {

std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- {name: other, context: {cluster: none, user: none}}\n"
         "- {name: here, context: {cluster: c, user: u}}\n"
         "clusters:\n- {name: c, cluster: {" +
         cluster + "}}\nusers:\n- {name: u, user: {" + user + "}}\n";
}

constexpr char kCluster[] = "server: 'https://10.0.0.1:6443', certificate-authority: ca.crt";
constexpr char kUser[] = "token: abc";

std::string Problem(const std::string& cluster, const std::string& user) {
  const auto credential = ParseKubeconfig(Kubeconfig(cluster, user), "/etc");
  return credential.ok() ? "" : credential.error().Text();
}

TEST(ApiCredential, ReadsTheKubeletsKubeconfig) {
  const auto credential = ParseKubeconfig(
      Kubeconfig("server: 'https://api.example:6443/prefix/', certificate-authority-data: UEVN",
                 "client-certificate: /var/lib/kubelet/pki/current.pem, client-key: pki/key.pem"),
      "/etc/kubernetes");
  ASSERT_TRUE(credential.ok()) << credential.error().Text();
  EXPECT_EQ(credential->host, "api.example");
  EXPECT_EQ(credential->port, 6443);
  EXPECT_EQ(credential->prefix, "/prefix");
  EXPECT_EQ(credential->ca.text, "PEM");
  EXPECT_EQ(credential->certificate.file, "/var/lib/kubelet/pki/current.pem");
  EXPECT_EQ(credential->key.file, "/etc/kubernetes/pki/key.pem");
  EXPECT_EQ(credential->token, "");
}

TEST(ApiCredential, ReadsServersAndTokens) {
  const auto ipv6 =
      ParseKubeconfig(Kubeconfig("server: 'https://[fd00::1]:7443', certificate-authority: ca.crt",
                                 "tokenFile: token"),
                      "/etc/kubernetes");
  ASSERT_TRUE(ipv6.ok()) << ipv6.error().Text();
  EXPECT_EQ(ipv6->host, "fd00::1");
  EXPECT_EQ(ipv6->port, 7443);
  EXPECT_EQ(ipv6->token_file, "/etc/kubernetes/token");
  const auto standard = ParseKubeconfig(
      Kubeconfig("server: 'https://api', certificate-authority: ca.crt", kUser), "/etc");
  ASSERT_TRUE(standard.ok());
  EXPECT_EQ(standard->port, 443);
}

TEST(ApiCredential, RefusesWhatIsMissingOrNotSafe) {
  EXPECT_EQ(Problem(kCluster, kUser), "");
  for (const char* const server :
       {"http://a", "a:6443", "https://", "https://a:", "https://a:0", "https://a:99999",
        "https://a:x", "https://u@a", "https://[::1", "https://[::1]x", "https://a/?x"}) {
    const std::string problem =
        Problem("server: '" + std::string(server) + "', certificate-authority: ca", kUser);
    EXPECT_NE(problem.find("is not https://"), std::string::npos) << server << ": " << problem;
  }
  // Logs have the text.
  const std::string secret =
      Problem("server: 'https://admin:S3CRET@a:6443', certificate-authority: ca", kUser);
  EXPECT_NE(secret.find("\"...@a:6443\" of the cluster is not https://"), std::string::npos)
      << secret;
  EXPECT_EQ(secret.find("S3CRET"), std::string::npos) << secret;
  const std::string cluster = kCluster;
  for (const auto& [found, problem] : {
           std::pair{Problem("server: 'https://a'", kUser), "names no CA"},
           {Problem(cluster + ", insecure-skip-tls-verify: true", kUser),
            "insecure-skip-tls-verify"},
           {Problem(cluster + ", proxy-url: 'http://p'", kUser), "proxy-url"},
           {Problem(cluster + ", tls-server-name: n", kUser), "tls-server-name"},
           {Problem(kCluster, "exec: {command: aws}"), "exec"},
           {Problem(kCluster, "username: a, password: b"), "username"},
           {Problem(kCluster, "token: 5"), "user.token is not a string"},
           {Problem(kCluster, "client-certificate: a"), "one of client-certificate and client-key"},
           {Problem(kCluster, "client-key-data: '%'"), "client-key-data is not base64"},
           {Problem(kCluster, ""), "neither a client certificate nor a token"},
       }) {
    EXPECT_NE(found.find(problem), std::string::npos) << problem << ": " << found;
  }
  for (const char* const text :
       {"", "[]", "{}", "current-context: x", "a: b: c",
        "{current-context: x, contexts: [{name: x}]}", "{current-context: x, contexts: [7]}"}) {
    EXPECT_FALSE(ParseKubeconfig(text, "/etc").ok()) << text;
  }
}

TEST(ApiCredential, NamesTheFile) {
  testing::FakeTree tree;
  const auto missing = ReadKubeconfig(tree.root() / "kubelet.conf");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().Text().find("kubelet.conf"), std::string::npos);
  tree.Write({"kubelet.conf", "a: ["});
  const auto bad = ReadKubeconfig(tree.root() / "kubelet.conf");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().Text().find("kubelet.conf"), std::string::npos) << bad.error().Text();
}

// What is wrong with a credential, before anything is sent.
std::string UseProblem(const ApiCredential& credential) {
  const auto reader = ReaderFor(credential, "test", std::chrono::seconds(1));
  return reader.ok() ? "" : reader.error().Text();
}

// Without a token, the API server would answer as to system:anonymous.
TEST(ApiCredential, RefusesATokenThatIsNone) {
  testing::FakeTree tree;
  tree.Write({"ca.crt", ""});
  ApiCredential credential;
  credential.host = "127.0.0.1";
  credential.port = 1;
  credential.ca = {.file = tree.root() / "ca.crt"};
  credential.token_file = tree.root() / "token";
  for (const char* const text : {"", "\n", " \t\r\n"}) {
    tree.Write({"token", text});
    EXPECT_EQ(UseProblem(credential),
              credential.token_file.string() +
                  ": the token is empty; write the token again, or name another credential");
  }
  for (const char* const text : {"a b", "a\nb"}) {
    tree.Write({"token", text});
    EXPECT_TRUE(UseProblem(credential)
                    .starts_with(credential.token_file.string() + ": the token has white space"))
        << UseProblem(credential);
  }
  tree.Write({"token", " abc \n\n"});
  EXPECT_EQ(UseProblem(credential).find("the token"), std::string::npos) << "it is trimmed";
  credential.token_file.clear();
  credential.token = " ";
  EXPECT_TRUE(
      UseProblem(credential).starts_with("the token of the kubeconfig: the token is empty"));
}

TEST(ApiCredential, NamesTheCaThatIsNone) {
  testing::FakeTree tree;
  ApiCredential credential;
  credential.host = "127.0.0.1";
  credential.port = 1;
  credential.token = "abc";
  credential.ca = {.file = tree.root() / "ca.crt"};
  for (const char* const text :
       {"", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    tree.Write({"ca.crt", text});
    EXPECT_TRUE(
        UseProblem(credential)
            .starts_with(credential.ca.file.string() + ": has no certificate of a CA in PEM; "))
        << UseProblem(credential);
  }
  credential.ca = {.text = "PEM"};
  EXPECT_TRUE(UseProblem(credential).starts_with("certificate-authority-data of the kubeconfig: "));
}

TEST(ApiCredential, NamesAContextThatIsNotSet) {
  const auto credential = ParseKubeconfig("apiVersion: v1\nkind: Config\ncontexts: []\n", "/etc");
  ASSERT_FALSE(credential.ok());
  EXPECT_EQ(credential.error().message, "the kubeconfig has no current-context");
  EXPECT_NE(credential.error().remedy.find("kubectl config use-context"), std::string::npos);
}

TEST(ApiCredential, ServiceAccountOfAPod) {
  const auto account = ServiceAccount("10.96.0.1", "443");
  ASSERT_TRUE(account.ok());
  EXPECT_EQ(account->host, "10.96.0.1");
  EXPECT_EQ(account->token_file, "/var/run/secrets/kubernetes.io/serviceaccount/token");
  EXPECT_EQ(ServiceAccount("fd00::1", "443")->host, "fd00::1");
  EXPECT_FALSE(ServiceAccount("", "443").ok());
  EXPECT_FALSE(ServiceAccount("10.96.0.1", "").ok());
}

}  // namespace
}  // namespace alignd::apiserver
