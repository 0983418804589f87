// The metrics of one scrape, in the model of prometheus-cpp.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <vector>

namespace alignd::metrics {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// A value. One thread at a time.
class Families {
 public:
  // Begins the family that the following samples belong to. `help` is one line.
  void Counters(std::string name, std::string help) {
    Begin(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  void Gauges(std::string name, std::string help) {
    Begin(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  void Histograms(std::string name, std::string help) {
    Begin(std::move(name), std::move(help), prometheus::MetricType::Histogram);
  }

  // A sample of a counter or a gauge.
  void Add(double value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == prometheus::MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    families_.back().metric.push_back(std::move(metric));
  }
  void Add(uint64_t value, Labels labels = {}) {
    Add(static_cast<double>(value), std::move(labels));
  }
  void Add(int value, Labels labels = {}) { Add(static_cast<double>(value), std::move(labels)); }
  // A histogram.
  void Add(prometheus::ClientMetric metric, Labels labels = {}) {
    metric.label = std::move(labels);
    families_.back().metric.push_back(std::move(metric));
  }

  const std::vector<prometheus::MetricFamily>& all() const { return families_; }

 private:
  void Begin(std::string name, std::string help, prometheus::MetricType type) {
    families_.push_back({std::move(name), std::move(help), type, {}});
  }

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace alignd::metrics
