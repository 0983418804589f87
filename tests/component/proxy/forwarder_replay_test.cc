// Recorded requests of real kubelets pass the forwarder: the runtime gets the same bytes.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "forwarder_fixture.h"
#include "host/file.h"
#include "simulator/embedded_runtime.h"

namespace alignd::proxy {
namespace {

namespace fs = std::filesystem;

// The recorded requests of one kubelet, in order: "017-CreateContainer.req.bin".
std::vector<fs::path> RequestsIn(const fs::path& directory) {
  std::vector<fs::path> files;
  const auto names = host::ListDirectory(directory);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (name.ends_with(".req.bin")) files.push_back(directory / name);
  }
  return files;
}

std::string MethodOf(const fs::path& file) {
  const std::string name = file.filename().string();
  const size_t dash = name.find('-');
  return name.substr(dash + 1, name.find('.') - dash - 1);
}

class Replay : public ForwarderTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(Replay, TheRuntimeGetsWhatTheKubeletSent) {
  const fs::path directory = fs::path(ALIGND_SOURCE_DIR) / "../shared/captures" / GetParam();
  const fs::path elsewhere = fs::path(ALIGND_SOURCE_DIR) / "../../shared/captures" / GetParam();
  std::vector<fs::path> files = RequestsIn(directory);
  if (files.empty()) files = RequestsIn(elsewhere);  // the checkout is a worktree
  if (files.empty()) GTEST_SKIP() << "no recorded requests in " << directory;

  const auto runtime = simulator::EmbeddedRuntime::Start(BackendEndpoint());
  ASSERT_TRUE(runtime.ok()) << runtime.error().Text();
  StartForwarder();
  size_t sent = 0;
  for (const fs::path& file : files) {
    const Result<std::string> request = host::ReadFile(file);
    ASSERT_TRUE(request.ok()) << request.error().Text();
    const std::string method = "/runtime.v1.RuntimeService/" + MethodOf(file);
    Call(method.c_str(), *request);  // ids are the recorded runtime's, so most answers are NotFound
    const auto received = (*runtime)->Requests();
    ASSERT_EQ(received.size(), ++sent) << file;
    EXPECT_EQ(received.back().method, method);
    EXPECT_TRUE(received.back().bytes == *request) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Kubelets, Replay, ::testing::Values("kubelet-1.36", "kubelet-1.20"),
                         [](const auto& version) {
                           std::string name = version.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace alignd::proxy
