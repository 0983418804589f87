// Messages of many small parts, which take many times their bytes once they are parsed. A request
// of 16 MiB made alignd take gigabytes.
#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonManyParts : public DaemonTest {
 protected:
  // The status of `method` with a request of 8 MiB: this part again and again.
  grpc::Status CallWithMany(const char* method, const std::string& part) const {
    std::string request;
    while (request.size() < 8 << 20) request += part;
    const std::string path = "/" + service_ + "/" + method;
    const auto patience = [](grpc::ClientContext& context) {
      context.set_deadline(std::chrono::system_clock::now() + kPatience);
    };
    return testing::CallUnary(client_, path.c_str(), request, patience).status;
  }
};

TEST_F(DaemonManyParts, AreRefusedBeforeTheyAreParsed) {
  Start();
  // An empty field of the number that the part's first byte says, in 8 MiB: of container_configs,
  // of fields that alignd does not know, of hugepage_limits in `linux`.
  const std::string container_config("\x2a\0", 2);
  const std::string unknown("\x7a\0", 2);
  const std::string limits = "\x12\x20" + [] {
    std::string many;
    while (many.size() < 32) many += std::string("\x42\0", 2);
    return many;
  }();
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"RestorePod", container_config},
      {"CreateContainer", unknown},
      {"RunPodSandbox", unknown},
      {"UpdateContainerResources", limits},
      {"StopPodSandbox", unknown},
      {"RemoveContainer", unknown},
      {"UpdatePodSandboxResources", limits},
      {"StartContainer", unknown}};
  for (const auto& [method, part] : cases) {
    const grpc::Status status = CallWithMany(method, part);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << method;
    EXPECT_NE(status.error_message().find("so many parts"), std::string::npos) << method;
  }
  EXPECT_FALSE(RunOne(PodConfig("uid"), Pinned(2)).container.empty());
}

// A pod may have many arguments and variables: as many as the kernel accepts pass.
TEST_F(DaemonManyParts, AsManyArgumentsAsTheKernelAcceptsPass) {
  Start();
  v1::ContainerConfig container = Pinned(2);
  constexpr int kArguments = 200'000;
  for (int i = 0; i < kArguments; ++i) container.add_args("a");
  const Running running = RunOne(PodConfig("uid"), container);
  EXPECT_EQ(runtime_->FindContainer(running.container)->config.args_size(), kArguments);
}

}  // namespace
}  // namespace alignd::daemon
