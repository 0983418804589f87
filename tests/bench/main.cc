// Runs the benchmarks, and prints processor, compiler and build beside the results.
#include <benchmark/benchmark.h>

#include <fstream>
#include <string>
#include <thread>

#include "bench_commit.h"

namespace {

// The value of the first line `<name> : <value>` of /proc/cpuinfo.
std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find(": ");
    if (value != std::string::npos) return line.substr(value + 2);
  }
  return "unknown";
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("cpu", CpuModel());
  benchmark::AddCustomContext("cpus", std::to_string(std::thread::hardware_concurrency()));
  benchmark::AddCustomContext("compiler", ALIGND_BENCH_COMPILER);
  benchmark::AddCustomContext("build", ALIGND_BENCH_BUILD);
  benchmark::AddCustomContext("commit", ALIGND_BENCH_COMMIT);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
