#include "cli/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "alignd/placement/fleet.h"

namespace alignd::cli {

void ForEachOnAllCpus(size_t count, const std::function<void(size_t)>& work) {
  // Fewer decisions take less time than the start of a thread.
  constexpr size_t kPerThread = 32;
  const size_t cpus = std::max(1U, std::thread::hardware_concurrency());
  const size_t threads = std::min(cpus, count / kPerThread + 1);
  if (threads == 1) {
    placement::ForEachInTurn(count, work);
    return;
  }
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      for (size_t item = next++; item < count; item = next++) work(item);
    });
  }
}

}  // namespace alignd::cli
