// What the proxy costs: the same calls to the runtime directly and through alignd, by turns, so
// that whatever else the machine does meets both. The targets stand in README.md, "Performance".
#include <benchmark/benchmark.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdlib>
#include <fstream>

#include "proxied_runtime.h"

namespace alignd::bench {
namespace {

constexpr char kService[] = "/runtime.v1.RuntimeService/";

// CPU time that the threads of a process have had since their start.
double CpuMicroseconds(pid_t pid) {
  double nanoseconds = 0;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    double running = 0;
    std::ifstream(task.path() / "schedstat") >> running;
    nanoseconds += running;
  }
  return nanoseconds / 1000;
}

struct Pair {
  Sample direct;
  Sample through;
};

// Blocks of calls, by turns.
Pair Compare(const ProxiedRuntime& node, const std::string& method, const grpc::ByteBuffer& request,
             int blocks, int block) {
  const auto direct = node.Direct();
  const auto through = node.Through();
  Pair pair;
  for (int i = -1; i < blocks; ++i) {  // the first block only warms up
    for (const auto& [channel, sample] :
         {std::pair{direct.get(), &pair.direct}, std::pair{through.get(), &pair.through}}) {
      for (int j = 0; j < block; ++j) {
        const Clock::time_point begin = Clock::now();
        CallOnce(*channel, method, request);
        const Microseconds took = Clock::now() - begin;
        if (i >= 0) sample->Add(took.count());
      }
    }
  }
  return pair;
}

void Report(benchmark::State& state, Pair pair) {
  for (const auto& [name, share] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
    const double direct = pair.direct.Percentile(share);
    const double through = pair.through.Percentile(share);
    state.counters[std::string("direct_us_") + name] = direct;
    state.counters[std::string("through_us_") + name] = through;
    state.counters[std::string("added_us_") + name] = through - direct;
    state.counters[std::string("ratio_") + name] = through / direct;
  }
}

std::vector<std::string> EchoRuntime() { return {ECHO_RUNTIME_PROGRAM}; }

void UnaryCall(benchmark::State& state) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    const double before = CpuMicroseconds(node.alignd().pid());
    Report(state, Compare(node, std::string(kService) + "Version", testing::ToBuffer(""),
                          /*blocks=*/200, /*block=*/25));
    state.counters["alignd_cpu_us"] = (CpuMicroseconds(node.alignd().pid()) - before) / (201 * 25);
  }
}
BENCHMARK(UnaryCall)->Iterations(1)->Unit(benchmark::kSecond);

// A method of a future is relayed as a stream.
void UnknownMethod(benchmark::State& state) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    Report(state, Compare(node, std::string(kService) + "Teleport", testing::ToBuffer(""),
                          /*blocks=*/200, /*block=*/25));
  }
}
BENCHMARK(UnknownMethod)->Iterations(1)->Unit(benchmark::kSecond);

void ListOfOneMegabyte(benchmark::State& state) {
  const ProxiedRuntime node(EchoRuntime());
  for (auto _ : state) {
    Report(state, Compare(node, std::string(kService) + "ListContainers", testing::ToBuffer(""),
                          /*blocks=*/100, /*block=*/5));
  }
}
BENCHMARK(ListOfOneMegabyte)->Iterations(1)->Unit(benchmark::kSecond);

// Calls per second with `in_flight` calls under way all the time.
double Throughput(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  int in_flight, std::chrono::milliseconds duration) {
  struct Slot {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request = testing::ToBuffer("");
  std::vector<Slot> slots(static_cast<size_t>(in_flight));
  const auto start = [&](Slot& slot) {
    slot.context = std::make_unique<grpc::ClientContext>();
    slot.reader = stub.PrepareUnaryCall(slot.context.get(), method, request, &queue);
    slot.reader->StartCall();
    slot.reader->Finish(&slot.answer, &slot.status, &slot);
  };
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
  return calls / took.count();
}

// 32 calls in flight. The runtime's answer takes no time, or two milliseconds, as most of a real
// runtime's do at least.
void ThirtyTwoInFlight(benchmark::State& state, const char* method) {
  const ProxiedRuntime node(EchoRuntime());
  const auto direct = node.Direct();
  const auto through = node.Through();
  const std::chrono::milliseconds turn(300);
  for (auto _ : state) {
    Sample ratio;
    Sample direct_rate;
    Sample through_rate;
    for (int i = 0; i < 12; ++i) {
      const double a = Throughput(direct, std::string(kService) + method, 32, turn);
      const double b = Throughput(through, std::string(kService) + method, 32, turn);
      direct_rate.Add(a);
      through_rate.Add(b);
      ratio.Add(b / a);
    }
    state.counters["direct_per_s"] = direct_rate.Percentile(0.5);
    state.counters["through_per_s"] = through_rate.Percentile(0.5);
    state.counters["ratio"] = ratio.Percentile(0.5);
  }
}
BENCHMARK_CAPTURE(ThirtyTwoInFlight, idle_runtime, "Version")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(ThirtyTwoInFlight, busy_runtime, "Exec")->Iterations(1)->Unit(benchmark::kSecond);

// The runtime of this machine, if ALIGND_BENCH_RUNTIME has its socket.
void RealRuntime(benchmark::State& state, const char* method) {
  const char* const socket = std::getenv("ALIGND_BENCH_RUNTIME");
  if (socket == nullptr) {
    state.SkipWithError("set ALIGND_BENCH_RUNTIME to the CRI socket of a runtime");
    return;
  }
  const ProxiedRuntime node{std::string(socket)};
  for (auto _ : state) {
    Report(state, Compare(node, std::string(kService) + method, testing::ToBuffer(""),
                          /*blocks=*/100, /*block=*/10));
    Sample ratio;
    for (int i = 0; i < 6; ++i) {
      const std::chrono::milliseconds turn(500);
      const double direct = Throughput(node.Direct(), std::string(kService) + method, 32, turn);
      ratio.Add(Throughput(node.Through(), std::string(kService) + method, 32, turn) / direct);
    }
    state.counters["ratio_32_in_flight"] = ratio.Percentile(0.5);
  }
}
BENCHMARK_CAPTURE(RealRuntime, Version, "Version")->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(RealRuntime, ListContainers, "ListContainers")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace alignd::bench
