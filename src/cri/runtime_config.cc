#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cri/handlers.h"
#include "host/journal.h"
#include "host/log_event.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;
using reconcile::CgroupDriver;

// One RuntimeConfig. A runtime that implements it is relayed. containerd 1.6 and 1.7 do not, and
// kubelets from 1.38 refuse such a runtime: then alignd answers with the cgroup driver of the
// runtime's own configuration, if the cgroups of running containers agree with it. All steps run on
// the events thread.
class RuntimeConfig final : public proxy::CallHandler {
 public:
  explicit RuntimeConfig(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override { decide(std::move(bytes)); }
  void OnResponse(const grpc::Status&, const std::string*) override {}

  bool AnswersInsteadOf(const grpc::Status& error) const override {
    return error.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  }
  void AnswerInstead(const grpc::Status& error, Decide decide) override {
    error_ = error;
    context_.reconciler.WhenListed(Next(&RuntimeConfig::AskStatus, std::move(decide)));
  }

  void AskStatus(bool listed, Decide decide) {
    if (!listed) {
      return PassOn({ErrorCode::kUnavailable, "the runtime's containers cannot be listed",
                     "see in the runtime's log why"},
                    decide);
    }
    context_.runtime.FindCgroupDriver(Next(&RuntimeConfig::ChooseContainers, std::move(decide)));
  }

  void ChooseContainers(Result<CgroupDriver> driver, Decide decide) {
    if (!driver.ok()) return PassOn(driver.error(), decide);
    driver_ = *driver;
    // All containers have the same driver, except while it is being changed.
    constexpr size_t kMaxChecked = 16;
    for (const admission::RunningContainer& container : context_.registry.Containers()) {
      if (unchecked_.size() < kMaxChecked) unchecked_.push_back(container.id);
    }
    CheckNext(std::move(decide));
  }

  void CheckNext(Decide decide) {
    if (unchecked_.empty()) return Answer(decide);
    checked_ = std::move(unchecked_.back());
    unchecked_.pop_back();
    context_.runtime.FindSpec(checked_, Next(&RuntimeConfig::Check, std::move(decide)));
  }

  void Check(Result<reconcile::ContainerSpec> spec, Decide decide) {
    // A container that has gone, or whose cgroup the runtime does not report, is no sign.
    const std::optional<CgroupDriver> driver =
        spec.ok() ? reconcile::DriverOfCgroup(spec->cgroup) : std::nullopt;
    if (!driver || *driver == driver_) return CheckNext(std::move(decide));
    PassOn({ErrorCode::kInvalidArgument,
            "the runtime is configured for the cgroup driver " + std::string(ToString(driver_)) +
                ", but container " + checked_ + " is in the cgroup " + spec->cgroup + " of " +
                std::string(ToString(*driver)),
            "set the kubelet's cgroupDriver and the runtime's SystemdCgroup to the same driver"},
           decide);
  }

 private:
  template <typename Argument>
  std::function<void(Argument)> Next(void (RuntimeConfig::*step)(Argument, Decide), Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  void Answer(const Decide& decide) {
    v1::RuntimeConfigResponse response;
    response.mutable_linux()->set_cgroup_driver(driver_ == CgroupDriver::kSystemd ? v1::SYSTEMD
                                                                                  : v1::CGROUPFS);
    static host::LineLimit limit("answers to RuntimeConfig");
    if (limit.Allow()) {
      spdlog::info(
          "the runtime does not implement RuntimeConfig; alignd answers with the cgroup driver of "
          "the runtime's configuration, {}",
          ToString(driver_));
    }
    decide(proxy::CallHandler::Answer{response.SerializeAsString()});
  }

  void PassOn(const Error& why, const Decide& decide) const {
    static host::LineLimit limit("calls of RuntimeConfig that alignd cannot answer");
    if (limit.Allow()) {
      spdlog::warn(
          "the runtime does not implement RuntimeConfig, which kubelets from 1.38 require, and "
          "alignd cannot answer in its place: {}",
          why.Text());
    }
    decide(error_);
  }

  const HandlerContext context_;
  grpc::Status error_;  // of the runtime
  CgroupDriver driver_ = CgroupDriver::kCgroupfs;
  std::vector<std::string> unchecked_;  // ids of containers
  std::string checked_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeRuntimeConfig(const HandlerContext& context) {
  return std::make_unique<RuntimeConfig>(context);
}

}  // namespace alignd::cri
