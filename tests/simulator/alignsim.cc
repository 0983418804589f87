// `alignsim`: a simulated runtime, kubelet and device plugins, to try alignd without a cluster.
#include <CLI/CLI.hpp>
#include <iostream>

#include "daemon/command_line.h"
#include "simulator/command.h"
#include "simulator/devices_command.h"
#include "simulator/kubelet_command.h"

int main(int argc, char** argv) {
  using alignd::simulator::AddDevicesCommand;
  using alignd::simulator::AddKubeletCommand;
  using alignd::simulator::AddRuntimeCommand;
  using alignd::simulator::Command;
  constexpr Command kCommands[] = {AddDevicesCommand, AddKubeletCommand, AddRuntimeCommand};

  CLI::App app("Simulated runtime, kubelet and device plugins for alignd", "alignsim");
  alignd::daemon::SetUpProgram(app);
  app.require_subcommand(1);
  alignd::simulator::Action action;
  for (const Command command : kCommands) command(app, action);
  CLI11_PARSE(app, argc, argv);

  alignd::simulator::BlockStopSignals();
  const alignd::Result<alignd::Done> done = action(std::cout);
  if (done.ok()) return 0;
  std::cerr << "alignsim: " << done.error().Text() << "\n";
  return 1;
}
