#include "simulator/command.h"

#include <csignal>

namespace alignd::simulator {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void AwaitStop() {
  const sigset_t signals = StopSignals();
  int number = 0;
  sigwait(&signals, &number);
}

}  // namespace alignd::simulator
