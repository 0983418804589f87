// Random small machines, and random numbers for property tests.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"
#include "core/machine_builder.h"
#include "core/property_seed.h"

namespace alignd {

// Random numbers, from the printed seed of property_seed.h.
class Random {
 public:
  // Between the two, both included.
  int Number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine_);
  }
  // True once in `times`.
  bool OnceIn(int times) { return Number(1, times) == 1; }
  template <typename T>
  const T& OneOf(const std::vector<T>& items) {
    return items[static_cast<size_t>(Number(0, static_cast<int>(items.size()) - 1))];
  }
  // Each CPU with the same chance, which is itself drawn.
  CpuSet SomeOf(const CpuSet& cpus) {
    const int percent = OneOf(std::vector<int>{10, 50, 80, 100});
    CpuSet some;
    for (const int cpu : cpus) {
      if (Number(1, 100) <= percent) some.Add(cpu);
    }
    return some;
  }

 private:
  std::mt19937_64 engine_ = SeededRandom();
};

// A small machine: regular, with CPUs offline, with CPU-less nodes, or with units that overlap
// each other as with firmware bugs and sub-NUMA clustering.
inline Machine RandomMachine(Random& random) {
  const auto level = [&](const char* name, int most) {
    return std::string(name) + ":" + std::to_string(random.Number(1, most)) + " ";
  };
  std::string text;
  if (random.OnceIn(4)) {
    text = level("numa", 3) + level("socket", 2);
  } else {
    text = level("socket", 3) + level("numa", 2);
  }
  if (random.OnceIn(2)) text += level("uncore", 3);
  text += level("core", 4) + level("thread", random.OnceIn(8) ? 4 : 2);
  if (random.OnceIn(2)) text += "smt=interleaved ";
  if (random.OnceIn(4)) text += "cpuless=1";
  Machine machine = MakeMachine(text);
  if (random.OnceIn(3)) {
    CpuSet offline = machine.cpus() - random.SomeOf(machine.cpus());
    offline.Remove(machine.cpus().First());
    machine = WithoutCpus(machine, offline);
  }
  if (random.OnceIn(4)) machine = WithIsolated(machine, random.SomeOf(machine.cpus()));
  if (!random.OnceIn(8)) return machine;
  std::vector<Cpu> rows = machine.cpu_rows();
  for (Cpu& row : rows) row.numa = row.core % machine.numa_count();
  return MachineOrDie(Machine::Make(std::move(rows), machine.numa(), machine.isolated()),
                      "RandomMachine");
}

// For messages: one row per CPU, as in a scenario.
inline std::string Describe(const Machine& machine) {
  std::string text;
  for (const Cpu& row : machine.cpu_rows()) {
    text += "[" + std::to_string(row.cpu) + "," + std::to_string(row.core) + "," +
            std::to_string(row.socket) + "," + std::to_string(row.numa) + "," +
            std::to_string(row.uncore) + "]";
  }
  return text;
}

}  // namespace alignd
