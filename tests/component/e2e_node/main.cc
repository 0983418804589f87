// The tables on a simulated node, as any tests of GoogleTest. Or on this machine, with results in
// the Test Anything Protocol:
//   e2e_node_test --runtime=SOCKET --alignd=PROGRAM [--only-ci] [--gtest_filter=...]
// SOCKET: of a container runtime with the image localhost/busybox:1.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "real_node.h"

namespace alignd::node_suites {
namespace {

class TapPrinter : public ::testing::EmptyTestEventListener {
 private:
  void OnTestStart(const ::testing::TestInfo& /*info*/) override {
    began_ = std::chrono::steady_clock::now();
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    std::istringstream text(result.message());
    for (std::string line; std::getline(text, line);) std::cout << "#   " << line << "\n";
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    const std::string_view name = info.name();
    std::cout << (info.result()->Passed() ? "ok " : "not ok ") << ++count_ << " - "
              << name.substr(name.find('/') + 1) << " (" << static_cast<int>(took.count()) << " s)"
              << std::endl;
  }
  void OnTestProgramEnd(const ::testing::UnitTest& /*unit*/) override {
    std::cout << "1.." << count_ << std::endl;
  }

  int count_ = 0;
  std::chrono::steady_clock::time_point began_;
};

// The value of --NAME=VALUE; nullopt for another word.
std::optional<std::string> ValueOf(std::string_view word, std::string_view name) {
  const std::string begin = "--" + std::string(name) + "=";
  return word.starts_with(begin) ? std::optional(std::string(word.substr(begin.size())))
                                 : std::nullopt;
}

int Main(int argc, char** argv) {
  RealNodeSettings settings;
  bool only_ci = false;
  int others = 1;
  for (int i = 1; i < argc; ++i) {
    if (const auto runtime = ValueOf(argv[i], "runtime")) {
      settings.runtime_endpoint = *runtime;
    } else if (const auto program = ValueOf(argv[i], "alignd")) {
      settings.alignd = *program;
    } else if (std::string_view(argv[i]) == "--only-ci") {
      only_ci = true;
    } else {
      argv[others++] = argv[i];
    }
  }
  argc = others;
  const bool is_real = !settings.runtime_endpoint.empty();
  if (is_real == settings.alignd.empty() || (only_ci && !is_real)) {
    std::cerr << "--runtime and --alignd need each other\n";
    return 2;
  }
  settings.only_ci = only_ci;
  if (is_real) RealSettings() = settings;
  ::testing::InitGoogleTest(&argc, argv);
  if (is_real) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new TapPrinter);
    const std::string filter = ::testing::GTEST_FLAG(filter);
    if (filter == "*") ::testing::GTEST_FLAG(filter) = "Tables/NodeSuites.*";
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace alignd::node_suites

int main(int argc, char** argv) { return alignd::node_suites::Main(argc, argv); }
