// alignd as a process in front of the simulated runtime of DaemonTest.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon_fixture.h"
#include "edge/alignd_command.h"
#include "edge/process.h"

namespace alignd::daemon {

// A channel with the kubelet's settings for the connection to its runtime.
inline std::shared_ptr<grpc::Channel> DialAsTheKubelet(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 30'000);  // 5 s there; here machines are busy
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

// Callers that send calls without pause, and each call again that meets a connection that closes:
// their gRPC does not do that by itself.
class RestlessCallers {
 public:
  RestlessCallers(int callers, const std::function<grpc::Status()>& call) {
    for (int i = 0; i < callers; ++i) {
      faults_.push_back(std::async(std::launch::async, [this, call] { return Run(call); }));
    }
  }
  ~RestlessCallers() { ended_ = true; }

  // Ends them. What failed.
  std::vector<std::string> End() {
    ended_ = true;
    std::vector<std::string> all;
    for (auto& faults : faults_) {
      for (std::string& fault : faults.get()) all.push_back(std::move(fault));
    }
    return all;
  }

 private:
  std::vector<std::string> Run(const std::function<grpc::Status()>& call) const {
    std::vector<std::string> faults;
    bool was_unsent = false;
    while (!ended_) {
      const grpc::Status answer = call();
      const bool unsent = answer.error_code() == grpc::StatusCode::UNAVAILABLE &&
                          answer.error_message().starts_with("GOAWAY received");
      if (!answer.ok() && (!unsent || was_unsent)) {
        faults.push_back(std::to_string(answer.error_code()) + ": " + answer.error_message());
      }
      was_unsent = unsent;
    }
    return faults;
  }

  std::atomic<bool> ended_ = false;
  std::vector<std::future<std::vector<std::string>>> faults_;
};

class DaemonProcessTest : public DaemonTest {
 protected:
  ~DaemonProcessTest() override { client_.reset(); }

  // As alignd is by default: pods that do not fit wait. The kubelet has no Pods API.
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.on_refusal = OnRefusal();
    options.pods_api_endpoint.clear();
    return options;
  }

  // Ends alignd if it runs, and starts it. `wrapper`: a command that executes alignd, as
  // `env NAME=VALUE` does. `listening`: as for Process.
  void LaunchAlignd(const Options& options, std::vector<std::string> wrapper = {},
                    int listening = -1) {
    alignd_.reset();  // before the next process writes to the log
    const std::vector<std::string> command = testing::AligndCommand(ALIGND_PROGRAM, options);
    wrapper.insert(wrapper.end(), command.begin(), command.end());
    alignd_ = std::make_unique<testing::Process>(std::move(wrapper), tree_.root() / "alignd.log",
                                                 listening);
  }

  grpc::Status Version() const {
    return Call<v1::VersionResponse>("Version", v1::VersionRequest()).status;
  }

  std::unique_ptr<testing::Process> alignd_;
};

}  // namespace alignd::daemon
