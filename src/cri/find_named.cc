#include "cri/find_named.h"

#include <memory>
#include <utility>

#include "rpc/grpc_status.h"

namespace alignd::cri {
namespace {

// Neither `step` nor what it has is used after the events loop has stopped.
template <typename Step>
std::function<void(bool)> OnEvents(const HandlerContext& context, Step step) {
  return [&events = context.events, step = std::move(step)](bool listed) {
    events.Post([step, listed] { step(listed); });
  };
}

void TakeListing(const NamedSearch& search, bool listed, const Decide& decide) {
  if (!listed) {
    return decide(rpc::ToStatus(
        Error{ErrorCode::kUnavailable,
              search.what + " is not known to alignd, and the runtime could not be listed",
              "retry; see in the runtime's log why it does not answer"}));
  }
  const bool found = search.find();
  if (found || !search.sets_assigned) return search.next(found, decide);
  decide(rpc::ToStatus(
      Error{ErrorCode::kNotFound,
            "the runtime lists no " + search.what +
                " that has not ended, so its CPUs, memory nodes and quota are not changed",
            "use the whole id of one that has not ended"}));
}

void ListAnew(const HandlerContext& context, const std::shared_ptr<const NamedSearch>& search,
              bool listed, const Decide& decide) {
  if (!listed) return decide(NotListed());
  const bool found = search->find();
  if (found || (!context.node.cpu && !context.node.memory)) return search->next(found, decide);
  context.reconciler.WhenListedAnew(
      AnswerBy(search->deadline),
      OnEvents(context, [search, decide](bool anew) { TakeListing(*search, anew, decide); }),
      search->cancelled);
}

}  // namespace

void FindNamed(const HandlerContext& context, NamedSearch search, Decide decide) {
  if (search.find()) return search.next(true, std::move(decide));
  const auto shared = std::make_shared<const NamedSearch>(std::move(search));
  context.reconciler.WhenListed(
      OnEvents(context, [context, shared, decide = std::move(decide)](
                            bool listed) { ListAnew(context, shared, listed, decide); }),
      shared->cancelled);
}

}  // namespace alignd::cri
