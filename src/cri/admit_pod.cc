#include <string>
#include <utility>
#include <variant>

#include "cri/handlers.h"

namespace alignd::cri {

bool IsEmpty(const admission::Grant& grant) {
  return grant.cpuset.empty() && grant.memory_nodes.empty() && grant.devices.empty();
}

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

void AdmitMakingRoom(const HandlerContext& context, const podsource::PodAsk& ask,
                     const std::string& wanted, const allocation::CountedPod& counted,
                     std::function<void(allocation::Outcome)> done) {
  context.allocation.Admit(
      ask.pod,
      [context, ask, wanted, counted, done = std::move(done)](allocation::Outcome outcome) mutable {
        if (!std::holds_alternative<Refusal>(outcome)) {
          done(std::move(outcome));
          return;
        }
        context.reconciler.ReleaseStopped([context, ask, wanted, counted, done = std::move(done),
                                           outcome = std::move(outcome)](bool any) mutable {
          if (any) {
            context.allocation.Admit(ask.pod, std::move(done), ask.source, wanted, counted);
          } else {
            done(std::move(outcome));
          }
        });
      },
      ask.source, wanted, counted);
}

}  // namespace alignd::cri
