#include "proxy/collected_answer.h"

#include <utility>

namespace alignd::proxy {

CollectedAnswer::Parts CollectedAnswer::Take(std::string_view method) {
  const bool is_short = trailers_.empty();
  const Headers& last = is_short ? headers_ : trailers_;
  const bool has_status = HasStatus(last);
  const bool has_message = fault_.ok() && message_.IsComplete();
  Parts result;
  result.status = StatusIn(last);
  result.is_whole = has_status && (!result.status.ok() || has_message);
  if (!result.is_whole && has_status) {
    result.status =
        fault_.ok()
            ? grpc::Status(grpc::StatusCode::INTERNAL,
                           "the runtime answered " + std::string(method) + " without a message")
            : fault_;
  }
  if (has_message) result.message = message_.TakeMessage();
  result.headers = std::move(headers_);
  if (!is_short) result.trailers = std::move(trailers_);
  *this = {};
  return result;
}

CollectedAnswer::Parts WholeAnswer(std::string message) {
  CollectedAnswer::Parts answer;
  answer.is_whole = true;
  answer.headers = AnswerBegin();
  answer.trailers = TrailersWith(grpc::Status::OK);
  answer.message = std::move(message);
  return answer;
}

}  // namespace alignd::proxy
