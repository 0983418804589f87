// What the proxy costs: the same calls to the runtime directly, through a relay that only copies
// bytes (bare_relay.cc), and through alignd, by turns, so that whatever else the machine does meets
// all three. The figures are in docs/performance.md.
#include <benchmark/benchmark.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <map>

#include "proxied_runtime.h"

namespace alignd::bench {
namespace {

constexpr char kService[] = "/runtime.v1.RuntimeService/";

// Processor time that a process has had since its start; 0 for none.
double CpuMicroseconds(pid_t pid) {
  clockid_t clock{};
  timespec had{};
  if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &had) != 0)
    return 0;
  return static_cast<double>(had.tv_sec) * 1e6 + static_cast<double>(had.tv_nsec) / 1e3;
}

// The ways to the runtime.
struct Way {
  std::string name;
  std::shared_ptr<grpc::Channel> channel;
  pid_t between = 0;  // the process there; 0: none
};

std::vector<Way> WaysTo(const ProxiedRuntime& node) {
  return {{"direct", node.Direct(), 0},
          {"relay", node.Relayed(), node.relay().pid()},
          {"alignd", node.Through(), node.alignd().pid()}};
}

// Blocks of calls, by turns.
void CompareCalls(benchmark::State& state, const ProxiedRuntime& node, const std::string& method,
                  int blocks, int block) {
  const std::vector<Way> ways = WaysTo(node);
  const grpc::ByteBuffer request = testing::ToBuffer("");
  std::map<std::string, Sample> samples;
  for (int i = -1; i < blocks; ++i) {  // the first block only warms up
    for (const Way& way : ways) {
      for (int j = 0; j < block; ++j) {
        const Clock::time_point begin = Clock::now();
        CallOnce(*way.channel, method, request);
        const Microseconds took = Clock::now() - begin;
        if (i >= 0) samples[way.name].Add(took.count());
      }
    }
  }
  for (const auto& [name, share] : {std::pair{"_us_p50", 0.5}, std::pair{"_us_p99", 0.99}}) {
    for (auto& [way, sample] : samples) state.counters[way + name] = sample.Percentile(share);
  }
}

std::vector<std::string> EchoRuntime() { return {ECHO_RUNTIME_PROGRAM}; }

void UnaryCall(benchmark::State& state) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    CompareCalls(state, node, std::string(kService) + "Version", /*blocks=*/200, /*block=*/25);
  }
}
BENCHMARK(UnaryCall)->Iterations(1)->Unit(benchmark::kSecond);

void ListOfOneMegabyte(benchmark::State& state) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    CompareCalls(state, node, std::string(kService) + "ListContainers", /*blocks=*/100,
                 /*block=*/5);
  }
}
BENCHMARK(ListOfOneMegabyte)->Iterations(1)->Unit(benchmark::kSecond);

// The cost of concurrent calls.
struct Load {
  double per_second = 0;
  // CPU time of the three processes per call, in microseconds.
  double client_us = 0;
  double runtime_us = 0;
  double between_us = 0;
};

// `in_flight` calls under way all the time.
Load Run(const ProxiedRuntime& node, const Way& way, const std::string& method, int in_flight,
         std::chrono::milliseconds duration) {
  struct Slot {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };
  grpc::GenericStub stub(way.channel);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request = testing::ToBuffer("");
  std::vector<Slot> slots(static_cast<size_t>(in_flight));
  const auto start = [&](Slot& slot) {
    slot.context = std::make_unique<grpc::ClientContext>();
    slot.reader = stub.PrepareUnaryCall(slot.context.get(), method, request, &queue);
    slot.reader->StartCall();
    slot.reader->Finish(&slot.answer, &slot.status, &slot);
  };
  const std::array<pid_t, 3> pids = {getpid(), node.RuntimePid(), way.between};
  std::array<double, 3> cpu{};
  std::ranges::transform(pids, cpu.begin(), CpuMicroseconds);
  for (Slot& slot : slots) start(slot);
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + duration;
  double calls = 0;
  int under_way = in_flight;
  void* tag = nullptr;
  bool ok = false;
  while (under_way > 0 && queue.Next(&tag, &ok)) {
    auto& slot = *static_cast<Slot*>(tag);
    if (!slot.status.ok()) throw std::runtime_error(slot.status.error_message());
    ++calls;
    if (Clock::now() < end) {
      start(slot);
    } else {
      --under_way;
    }
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  for (size_t i = 0; i < pids.size(); ++i) cpu[i] = (CpuMicroseconds(pids[i]) - cpu[i]) / calls;
  return {calls / took.count(), cpu[0], cpu[1], cpu[2]};
}

// By turns; medians.
void CompareLoads(benchmark::State& state, const ProxiedRuntime& node, const std::string& method,
                  int in_flight, int turns, std::chrono::milliseconds turn) {
  const std::vector<Way> ways = WaysTo(node);
  std::map<std::string, Sample> samples;
  for (int i = -1; i < turns; ++i) {  // the first turn only warms up
    double direct = 0;
    for (const Way& way : ways) {
      const Load load = Run(node, way, method, in_flight, turn);
      if (way.between == 0) direct = load.per_second;
      if (i < 0) continue;
      samples[way.name + "_per_s"].Add(load.per_second);
      samples[way.name + "_cpu_us_client"].Add(load.client_us);
      samples[way.name + "_cpu_us_runtime"].Add(load.runtime_us);
      if (way.between == 0) continue;
      samples[way.name + "_ratio"].Add(load.per_second / direct);
      samples[way.name + "_cpu_us_between"].Add(load.between_us);
    }
  }
  for (auto& [name, sample] : samples) state.counters[name] = sample.Percentile(0.5);
}

// So many calls in flight. The runtime answers at once, or after 2 ms, which most calls of a real
// runtime take at least.
void CallsInFlight(benchmark::State& state, const char* method) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    CompareLoads(state, node, std::string(kService) + method, static_cast<int>(state.range(0)),
                 /*turns=*/12, std::chrono::milliseconds(300));
  }
}
void InFlight(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("calls")->Arg(1)->Arg(8)->Arg(32)->Iterations(1)->Unit(benchmark::kSecond);
}
BENCHMARK_CAPTURE(CallsInFlight, idle_runtime, "Version")->Apply(InFlight);
BENCHMARK_CAPTURE(CallsInFlight, busy_runtime, "Exec")->Apply(InFlight);

// The runtime of this machine, if ALIGND_BENCH_RUNTIME has its socket.
void RealRuntime(benchmark::State& state, const char* method) {
  const char* const socket = std::getenv("ALIGND_BENCH_RUNTIME");
  if (socket == nullptr) {
    state.SkipWithError("set ALIGND_BENCH_RUNTIME to the CRI socket of a runtime");
    return;
  }
  const ProxiedRuntime node{std::string(socket)};
  for (auto _ : state) {
    CompareCalls(state, node, std::string(kService) + method, /*blocks=*/100, /*block=*/10);
    CompareLoads(state, node, std::string(kService) + method, /*in_flight=*/32, /*turns=*/6,
                 std::chrono::milliseconds(500));
  }
}
BENCHMARK_CAPTURE(RealRuntime, Version, "Version")->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(RealRuntime, ListContainers, "ListContainers")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace alignd::bench
