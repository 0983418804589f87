#include "extender/lease.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "apiserver/object_json.h"
#include "host/utc_time.h"

namespace alignd::extender {
namespace {

using LeaseJson = nlohmann::json;

constexpr char kLeaseVersion[] = "coordination.k8s.io/v1";

Error NoLease(const std::string& what) {
  return {ErrorCode::kCorrupt, "the Lease cannot be read: " + what,
          "delete the Lease; the replicas create it again"};
}

// An int32 that may be absent; nullopt: it is something else.
std::optional<int32_t> NumberIn(const LeaseJson& spec, const char* name) {
  const LeaseJson* const member = apiserver::MemberIn(spec, name);
  if (member == nullptr || member->is_null()) return 0;
  if (!member->is_number_integer()) return std::nullopt;
  const auto number = member->get<int64_t>();
  using Limits = std::numeric_limits<int32_t>;
  if (number < Limits::min() || number > Limits::max()) return std::nullopt;
  return static_cast<int32_t>(number);
}

// Likewise for a text.
std::optional<std::string> LeaseTextIn(const LeaseJson& spec, const char* name) {
  const LeaseJson* const member = apiserver::MemberIn(spec, name);
  if (member == nullptr || member->is_null()) return std::string();
  if (!member->is_string()) return std::nullopt;
  return member->get<std::string>();
}

void SetTerm(LeaseJson& lease, const LeaseTerm& term) {
  LeaseJson& spec = lease["spec"];
  if (!spec.is_object()) spec = LeaseJson::object();
  spec["holderIdentity"] = term.holder;
  spec["leaseDurationSeconds"] = term.duration.count();
  spec["leaseTransitions"] = term.transitions;
  spec["acquireTime"] = term.acquired;
  spec["renewTime"] = term.renewed;
}

std::string DumpedLease(const LeaseJson& lease) {
  return lease.dump(-1, ' ', false, LeaseJson::error_handler_t::replace);
}

}  // namespace

Result<Lease> ParseLease(const std::string& text) {
  const LeaseJson object = apiserver::ParsedObject(text);
  Lease lease;
  lease.version = apiserver::TextIn(object, "metadata", "resourceVersion");
  if (lease.version.empty()) return NoLease("it has no resourceVersion");
  const LeaseJson* const member = apiserver::MemberIn(object, "spec");
  const LeaseJson spec = member == nullptr ? LeaseJson::object() : *member;
  if (!spec.is_object() && !spec.is_null()) return NoLease("its spec is no object");
  const auto holder = LeaseTextIn(spec, "holderIdentity");
  const auto acquired = LeaseTextIn(spec, "acquireTime");
  const auto duration = NumberIn(spec, "leaseDurationSeconds");
  const auto transitions = NumberIn(spec, "leaseTransitions");
  if (!holder || !acquired) return NoLease("holderIdentity or acquireTime is no text");
  if (!duration || !transitions) {
    return NoLease("leaseDurationSeconds or leaseTransitions is no number");
  }
  lease.holder = *holder;
  lease.acquired = *acquired;
  lease.duration = std::chrono::seconds(*duration);
  lease.transitions = *transitions;
  lease.json = text;
  return lease;
}

std::string NewLease(const std::string& name_space, const std::string& name,
                     const LeaseTerm& term) {
  LeaseJson lease = {{"apiVersion", kLeaseVersion},
                     {"kind", "Lease"},
                     {"metadata", {{"name", name}, {"namespace", name_space}}}};
  SetTerm(lease, term);
  return DumpedLease(lease);
}

std::string ChangedLease(const Lease& lease, const LeaseTerm& term) {
  LeaseJson object = apiserver::ParsedObject(lease.json);
  SetTerm(object, term);
  return DumpedLease(object);
}

std::string MicroTime(std::chrono::system_clock::time_point time) {
  using std::chrono::microseconds;
  using std::chrono::seconds;
  const auto since = std::chrono::floor<microseconds>(time.time_since_epoch());
  const auto part = (since - std::chrono::floor<seconds>(since)).count();
  std::string text = host::UtcTime(time);
  text.pop_back();  // Z
  return text + "." + std::to_string(1'000'000 + part).substr(1) + "Z";
}

std::string LeasesPath(const std::string& name_space) {
  return "/apis/coordination.k8s.io/v1/namespaces/" + name_space + "/leases";
}

}  // namespace alignd::extender
