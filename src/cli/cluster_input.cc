#include "cli/cluster_input.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "apiserver/api_credential.h"
#include "apiserver/object_list.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;
using apiserver::ObjectKind;

// A list whose next page has expired begins again: so often.
constexpr int kMaxAttempts = 3;
constexpr std::chrono::seconds kListSilence{60};  // an API server can take long for a page

// A connection that the API server has closed is an error of the call, not the end of the program.
class WithoutSigpipe {
 public:
  WithoutSigpipe() : before_(signal(SIGPIPE, SIG_IGN)) {}
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() { signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

std::string VariableOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As kubectl, which also merges several files.
Result<apiserver::ApiCredential> FindCredential(const std::string& kubeconfig) {
  if (!kubeconfig.empty()) return apiserver::ReadKubeconfig(kubeconfig);
  const std::string named = VariableOf("KUBECONFIG");
  if (named.find(':') != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, "KUBECONFIG names several files: " + named,
                 "name one of them with --kubeconfig"};
  }
  if (!named.empty()) return apiserver::ReadKubeconfig(named);
  // Without HOME it would be one in the current directory, which anybody may have written.
  const std::string home = VariableOf("HOME");
  const fs::path of_user = fs::path(home) / ".kube/config";
  std::error_code ignored;
  if (!home.empty() && fs::exists(of_user, ignored)) return apiserver::ReadKubeconfig(of_user);
  if (!VariableOf("KUBERNETES_SERVICE_HOST").empty())
    return apiserver::ServiceAccountOfEnvironment();
  return Error{ErrorCode::kInvalidArgument,
               "--from-cluster: there is no kubeconfig: KUBECONFIG is not set, " +
                   (home.empty() ? "HOME is not set" : "there is no " + of_user.string()) +
                   ", and this is no pod with a service account",
               "name one with --kubeconfig"};
}

// The rule of RBAC that is missing.
std::string MissingRule(ObjectKind kind) {
  const char* const group = kind == ObjectKind::kTopology ? "topology.node.k8s.io" : "\"\"";
  return std::string("give the credential a ClusterRole with apiGroups: [") + group +
         "], resources: [" + std::string(ToString(kind)) +
         "], verbs: [list]; see docs/fleet-planning.md, \"Nodes from the API server\"";
}

// Lists all objects of the kind into `objects`. Errors: also as ClusterObjects::Add.
std::optional<apiserver::ApiFailure> ListKind(apiserver::ApiReader& reader, ObjectKind kind,
                                              placement::ClusterObjects& objects) {
  std::string version;
  return apiserver::ListObjects(
      reader, kind, {.access = MissingRule(kind)},
      [&](const std::string& key, const std::string& json) -> Result<Done> {
        const Result<bool> added = objects.Add(json, "the API server");
        if (added.ok()) return Done{};
        return kind == ObjectKind::kPod ? added.error().In("Pod " + key) : added.error();
      },
      version);
}

// Lists all kinds into `objects`.
std::optional<apiserver::ApiFailure> ListKinds(apiserver::ApiReader& reader,
                                               placement::ClusterObjects& objects) {
  placement::ClusterObjects earlier;
  // A topology object is there after its Node. It is of the pods before it: those that come or
  // start after it are seen by a second list.
  auto failure = ListKind(reader, ObjectKind::kPod, earlier);
  if (!failure) failure = ListKind(reader, ObjectKind::kTopology, objects);
  if (!failure) failure = ListKind(reader, ObjectKind::kNode, objects);
  if (!failure) failure = ListKind(reader, ObjectKind::kPod, objects);
  if (!failure) objects.CompareWith(earlier);
  return failure;
}

// Of many, the first ones.
std::string NoteAboutGone(const std::vector<std::string>& gone) {
  constexpr size_t kShown = 3;
  std::string names;
  for (size_t i = 0; i < std::min(gone.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + gone[i];
  }
  if (gone.size() > kShown) names += " and " + std::to_string(gone.size() - kShown) + " more";
  return "NodeResourceTopology " + names +
         ": there is no Node of that name, the node has gone; if the object stays, delete it with "
         "kubectl";
}

}  // namespace

Result<ListedCluster> ListCluster(apiserver::ApiReader& reader) {
  for (int attempt = 1;; ++attempt) {
    ListedCluster listed;
    const std::optional<apiserver::ApiFailure> failure = ListKinds(reader, listed.objects);
    if (!failure) {
      const std::vector<std::string> gone = listed.objects.RemoveWithoutNode();
      if (!gone.empty()) listed.notes.push_back(NoteAboutGone(gone));
      if (!listed.objects.empty()) return listed;
      return Error{ErrorCode::kNotFound, "--from-cluster: the cluster has no Node",
                   "see with kubectl get nodes whether the kubeconfig names the right cluster"};
    }
    if (!failure->is_expired) return failure->error;
    if (attempt < kMaxAttempts) continue;
    return Error{
        failure->error.code,
        failure->error.message + ", in each of " + std::to_string(kMaxAttempts) + " attempts",
        "run the command again; see whether the API server is overloaded"};
  }
}

Result<ListedCluster> ReadCluster(const std::string& kubeconfig) {
  const Result<apiserver::ApiCredential> credential = FindCredential(kubeconfig);
  if (!credential.ok()) return credential.error();
  const WithoutSigpipe without_sigpipe;
  const Result<std::unique_ptr<apiserver::ApiReader>> reader =
      apiserver::ReaderFor(*credential, "alignctl", kListSilence);
  if (!reader.ok()) return reader.error();
  return ListCluster(**reader);
}

}  // namespace alignd::cli
