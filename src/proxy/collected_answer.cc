#include "proxy/collected_answer.h"

#include <string>
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
  answer.trailers = TrailersWith(grpc::Status());
  answer.message = std::move(message);
  return answer;
}

void Send(CollectedAnswer::Parts answer, Session& session, int32_t stream) {
  if (!answer.trailers) return session.RespondAndEnd(stream, answer.headers);
  session.Respond(stream, answer.headers);
  if (answer.message) session.Write(stream, FrameOf(*std::move(answer.message)));
  session.End(stream, *std::move(answer.trailers));
}

void EndWith(const grpc::Status& status, Session& session, int32_t stream, bool answered) {
  if (answered) return session.End(stream, TrailersWith(status));
  session.RespondAndEnd(stream, AnswerWith(status));
}

grpc::Status ResetStatus(uint32_t code, bool lost, const std::string& why) {
  if (lost) {
    return {grpc::StatusCode::UNAVAILABLE,
            "the connection to the runtime is gone" + (why.empty() ? why : ": " + why)};
  }
  const std::string text = "the call of the runtime was reset: " + ResetReason(code);
  return {code == NGHTTP2_CANCEL ? grpc::StatusCode::CANCELLED : grpc::StatusCode::UNAVAILABLE,
          text};
}

}  // namespace alignd::proxy
