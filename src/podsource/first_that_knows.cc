#include "podsource/first_that_knows.h"

#include <utility>

namespace alignd::podsource {

void FirstThatKnows::Ask(const Question& question, Answer answer) {
  Question with_remarks = question;
  if (!with_remarks.remarks) with_remarks.remarks = std::make_shared<std::string>();
  AskFrom(0, with_remarks,
          [answer = std::move(answer),
           remarks = with_remarks.remarks](Result<std::optional<PodAsk>> known) {
            if (known.ok() && *known && !remarks->empty()) {
              (*known)->source += " (" + *remarks + ")";
            }
            answer(std::move(known));
          });
}

void FirstThatKnows::AskFrom(size_t first, const Question& question, const Answer& answer) {
  if (first == sources_.size()) {
    answer(std::optional<PodAsk>());
    return;
  }
  sources_[first]->Ask(question,
                       [this, first, question, answer](Result<std::optional<PodAsk>> known) {
                         if (known.ok() && !*known) {
                           AskFrom(first + 1, question, answer);
                         } else {
                           answer(std::move(known));
                         }
                       });
}

}  // namespace alignd::podsource
