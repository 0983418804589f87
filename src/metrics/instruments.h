// Numbers that threads add to without a lock, and a scrape reads.
#pragma once

#include <prometheus/client_metric.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sync/mutex.h"

namespace alignd::metrics {

// Thread-safe; never waits.
class Counter {
 public:
  void Add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// Thread-safe; never waits. A scrape that runs beside an observation sees it in all parts or in
// some of them; the number of samples is always that of the buckets.
class Histogram {
 public:
  // The inclusive upper bounds, ascending; the bucket without a bound is added.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void Observe(double value) {
    const auto bound = std::ranges::lower_bound(bounds_, value);
    counts_[static_cast<size_t>(bound - bounds_.begin())].Add();
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  void Observe(std::chrono::nanoseconds took) {
    Observe(std::chrono::duration<double>(took).count());
  }

  prometheus::ClientMetric Collect() const {
    prometheus::ClientMetric metric;
    for (size_t i = 0; i < bounds_.size(); ++i) {
      metric.histogram.sample_count += counts_[i].value();
      metric.histogram.bucket.push_back({metric.histogram.sample_count, bounds_[i]});
    }
    metric.histogram.sample_count += counts_.back().value();
    metric.histogram.sample_sum = sum_.load(std::memory_order_relaxed);
    return metric;
  }

 private:
  const std::vector<double> bounds_;
  std::vector<Counter> counts_;  // its size is constant
  std::atomic<double> sum_ = 0;
};

// Instruments by a name that comes from outside, such as a resource. Thread-safe. After kMaxNames
// names, all further ones share the name `other`, so that a program that makes up names cannot make
// the page grow.
template <typename Instrument>
class ByName {
 public:
  static constexpr size_t kMaxNames = 64;

  // `make` returns a new instrument.
  template <typename Make>
  Instrument& Of(const std::string& name, Make make) {
    const MutexLock lock(mutex_);
    const auto known = instruments_.find(name);
    if (known != instruments_.end()) return *known->second;
    std::unique_ptr<Instrument>& added =
        instruments_[instruments_.size() < kMaxNames ? name : "other"];
    if (!added) added = make();
    return *added;
  }

  // Calls `visit` with each name and instrument, without the lock.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::vector<std::pair<std::string, const Instrument*>> all;
    {
      const MutexLock lock(mutex_);
      for (const auto& [name, instrument] : instruments_) all.emplace_back(name, instrument.get());
    }
    for (const auto& [name, instrument] : all) visit(name, *instrument);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Instrument>> instruments_ GUARDED_BY(mutex_);
};

}  // namespace alignd::metrics
