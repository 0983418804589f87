// The Leases of an API server, with optimistic concurrency.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace alignd::testing {

// One thread at a time.
class FakeLeases {
 public:
  using Object = nlohmann::json;
  struct Answer {
    int status = 0;
    std::string body;
  };

  explicit FakeLeases(std::string name_space) : name_space_(std::move(name_space)) {}

  // `path`: of the collection for POST, else of a Lease.
  Answer Call(const std::string& method, const std::string& path, const std::string& body) {
    const std::string collection =
        "/apis/coordination.k8s.io/v1/namespaces/" + name_space_ + "/leases";
    if (!path.starts_with(collection)) {
      return Status(404, "namespaces of " + path + " not found");
    }
    if (method == "POST") return Create(path, Object::parse(body, nullptr, false));
    const auto found = leases_.find(path);
    if (found == leases_.end()) return Status(404, "leases.coordination.k8s.io not found");
    if (method == "GET") return {.status = 200, .body = found->second.dump()};
    Object wanted = Object::parse(body, nullptr, false);
    if (!wanted.is_object()) return Status(400, "no object");
    Object& lease = found->second;
    if (wanted["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]) {
      return Status(409, "the object has been modified");
    }
    // What changes nothing has no new version.
    if (wanted != lease) {
      lease = std::move(wanted);
      lease["metadata"]["resourceVersion"] = std::to_string(++version_);
    }
    return {.status = 200, .body = lease.dump()};
  }

  // A Lease that no replica has.
  void AddReleased(const std::string& name) {
    const Object lease = {
        {"metadata", {{"name", name}, {"namespace", name_space_}}},
        {"spec", {{"holderIdentity", ""}, {"leaseDurationSeconds", 1}, {"leaseTransitions", 4}}}};
    (void)Create("/apis/coordination.k8s.io/v1/namespaces/" + name_space_ + "/leases", lease);
  }
  void Delete() { leases_.clear(); }
  // The spec of the only Lease; null: there is none.
  Object Spec() const { return leases_.empty() ? Object() : leases_.begin()->second["spec"]; }
  // kubectl edit.
  void Edit(const std::string& field, const Object& value) {
    for (auto& [path, lease] : leases_) {
      lease["spec"][field] = value;
      lease["metadata"]["resourceVersion"] = std::to_string(++version_);
    }
  }

 private:
  static Answer Status(int code, const std::string& message) {
    return {.status = code,
            .body = Object({{"kind", "Status"}, {"code", code}, {"message", message}}).dump()};
  }
  Answer Create(const std::string& path, Object wanted) {
    if (!wanted.is_object()) return Status(400, "no object");
    const std::string of_lease = path + "/" + wanted["metadata"]["name"].get<std::string>();
    if (leases_.contains(of_lease)) return Status(409, "leases.coordination.k8s.io already exists");
    wanted["metadata"]["resourceVersion"] = std::to_string(++version_);
    wanted["metadata"]["uid"] = "u" + std::to_string(version_);
    leases_[of_lease] = wanted;
    return {.status = 201, .body = wanted.dump()};
  }

  std::string name_space_;
  std::map<std::string, Object> leases_;  // by path
  int version_ = 100;
};

}  // namespace alignd::testing
