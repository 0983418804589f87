// alignd as a process in front of the simulated runtime of DaemonTest.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

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

  std::unique_ptr<testing::Process> alignd_;
};

}  // namespace alignd::daemon
