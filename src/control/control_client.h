// Calls the control service of a running alignd.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "alignd/control/v1/topology.pb.h"

namespace alignd::control {

inline constexpr char kDefaultSocket[] = "unix:///run/alignd/control.sock";
inline constexpr std::chrono::seconds kDefaultPatience{10};

// A value. Each call blocks until alignd answers, at most for `timeout`.
class ControlClient {
 public:
  // `option`: of the program, with which the endpoint is set.
  explicit ControlClient(std::string endpoint, std::chrono::milliseconds timeout = kDefaultPatience,
                         std::string option = "--socket")
      : endpoint_(std::move(endpoint)), timeout_(timeout), option_(std::move(option)) {}

  // The CPU lists of the answer are valid. `list_devices`: with the devices of each resource.
  // Errors: kUnavailable if no alignd listens on the socket; kInvalidArgument as rpc::SocketPath;
  // kDeadlineExceeded; kCorrupt if a CPU list is not valid.
  Result<v1::GetStatusResponse> GetStatus(bool list_devices = false) const;

  // Errors: as Explain.
  Result<v1::ListPodsResponse> ListPods() const;

  // Errors: as Explain; kNotFound if the pod was not refused; kInvalidArgument for the manifest.
  Result<v1::WhyNotResponse> WhyNot(const v1::WhyNotRequest& request) const;

  // `pod`: UID, name or namespace/name; empty: all pods. `limit`: of decisions; 0: the server's
  // default. Newest first. Errors: as GetStatus, without kCorrupt.
  Result<v1::ExplainResponse> Explain(const std::string& pod, uint32_t limit) const;

  // Errors: as GetStatus, without kCorrupt.
  Result<v1::GetConfigResponse> GetConfig() const;

  // The topology object of the node that the request names. With a known version, of an answer
  // before: returns at once if there is another object, else when there is one, or without an
  // object after the wait. Errors: as GetStatus, without kCorrupt; kInvalidArgument if that alignd
  // makes no annotations of Koordinator.
  Result<v1::GetTopologyResponse> GetTopology(const v1::GetTopologyRequest& request) const;

  // Errors: as GetStatus, without kCorrupt; kInvalidArgument if alignd would not start with it.
  Result<v1::ChangeResponse> PlanChange(const v1::ChangeRequest& request) const;
  // The same; kIo with alignd's text if the change cannot be carried out.
  Result<v1::ChangeResponse> ApplyChange(const v1::ChangeRequest& request) const;
  Result<v1::GetChangeResponse> GetChange(uint64_t change) const;

  // The state of the switch after the action. Errors: as GetStatus, without kCorrupt; kIo with
  // alignd's text if alignd has not done it all.
  Result<v1::BypassResponse> Bypass(v1::BypassRequest::Action action) const;

 private:
  std::string endpoint_;
  std::chrono::milliseconds timeout_;
  std::string option_;
};

}  // namespace alignd::control
