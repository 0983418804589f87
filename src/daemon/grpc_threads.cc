// gRPC starts threads for each CPU of the machine: about 50 on a machine with 128 CPUs. alignd has
// a few calls under way at a time, and as many threads on any machine as gRPC starts with two CPUs.
#include <grpc/support/cpu.h>
#include <sched.h>

#include <algorithm>

namespace {

constexpr unsigned kCpus = 2;

}  // namespace

// gRPC's libraries call these functions in place of their own ones. gRPC 1.51 has no option for it.
extern "C" unsigned gpr_cpu_num_cores(void) { return kCpus; }
extern "C" unsigned gpr_cpu_current_cpu(void) {
  return static_cast<unsigned>(std::max(sched_getcpu(), 0)) % kCpus;
}
