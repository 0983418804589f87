// What refused pods that wait are answered, besides the refusal itself.
#pragma once

#include <chrono>
#include <string>

#include "alignd/pod/refusal.h"
#include "allocation/wait_queue.h"

namespace alignd::allocation {

// The reason of a pod that waits for pods before it in the queue, and not for lack of resources.
inline constexpr char kWaitsForEarlierPods[] = "WaitsForEarlierPods";

// "65 s"; "350 ms" below a second.
std::string WaitText(std::chrono::milliseconds duration);

// The pod may not take resources before the pod of `first`, which waits for the same kinds.
Refusal WaitsBehind(const WaitingPod& pod, const WaitQueue::Place& first);

// Text to append to the refusal of a pod with a place: its position, since when it waits, which
// pods are before it, and how long the place is kept (`is_kept`; else until this answer). Empty: it
// has none.
std::string DescribePlace(const WaitQueue& queue, const std::string& uid, WaitQueue::Time now,
                          bool is_kept);

// Text to append to the refusal of a pod that gets no place because there are too many.
std::string DescribeFull(const WaitQueue& queue);

// The answer to a pod whose time was over.
Refusal WaitTimeout(const WaitQueue::Place& place, std::chrono::milliseconds fail_after);

}  // namespace alignd::allocation
