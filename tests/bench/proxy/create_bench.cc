// The additional cost of CreateContainer through alignd.
#include <benchmark/benchmark.h>

#include "host/durable_file.h"
#include "host/file.h"
#include "pods.h"

namespace alignd::bench {
namespace {

double Took(Clock::time_point begin) { return Microseconds(Clock::now() - begin).count(); }

// Creates and removes pods directly and through alignd, by turns. Timed are CreateContainer, and in
// between the durable replacement of a file as long as alignd's state in alignd's directory.
void CreateContainer(benchmark::State& state, int exclusive_cpus) {
  const ProxiedRuntime node({ALIGNSIM_PROGRAM, "runtime", "--listen"});
  const auto direct = node.Direct();
  const auto through = node.Through();
  RunPods(*through, static_cast<int>(state.range(0)), /*exclusive_too=*/false);
  for (auto _ : state) {
    Sample without;
    Sample with;
    Sample write;
    for (int i = 0; i < 100; ++i) {
      for (const auto& [channel, sample] :
           {std::pair{direct.get(), &without}, std::pair{through.get(), &with}}) {
        BenchPod pod("timed-" + std::to_string(i), exclusive_cpus);
        pod.Run(*channel);
        const Clock::time_point begin = Clock::now();
        pod.Create(*channel);
        sample->Add(Took(begin));
        pod.Remove(*channel);
      }
      const auto text = host::ReadFile(node.root() / "state/cpu_manager_state");
      if (!text.ok()) throw std::runtime_error(text.error().Text());
      const Clock::time_point begin = Clock::now();
      const auto written = host::ReplaceFile(node.root() / "state/reference", *text);
      if (!written.ok()) throw std::runtime_error(written.error().Text());
      write.Add(Took(begin));
    }
    for (const auto& [name, share] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
      state.counters[std::string("direct_us_") + name] = without.Percentile(share);
      state.counters[std::string("through_us_") + name] = with.Percentile(share);
      state.counters[std::string("durable_write_us_") + name] = write.Percentile(share);
      state.counters[std::string("added_us_") + name] =
          with.Percentile(share) - without.Percentile(share);
    }
  }
}
BENCHMARK_CAPTURE(CreateContainer, shared, 0)
    ->Arg(0)
    ->Arg(50)
    ->Arg(250)
    ->ArgName("running")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(CreateContainer, exclusive, 2)
    ->Arg(0)
    ->Arg(50)
    ->Arg(250)
    ->ArgName("running")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace alignd::bench
