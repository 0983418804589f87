#include <string>
#include <string_view>

#include "alignd/checkpoint/go_json_reader.h"

namespace alignd::checkpoint {
namespace {

constexpr size_t kMaxDepth = 10000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class SyntaxChecker {
 public:
  explicit SyntaxChecker(std::string_view text) : text_(text) {}

  Result<Done> Check() {
    while (true) {
      if (!BeginValue()) return Failure();
      if (value_follows_) continue;
      if (!EndValues()) return Failure();
      if (done_) return Done{};
    }
  }

 private:
  // A scalar, an empty container, or the opening of one (then a value follows).
  bool BeginValue() {
    value_follows_ = false;
    SkipSpace();
    if (AtEnd()) return Fail("the text ends early");
    const char c = text_[at_];
    if (c != '{' && c != '[') return Scalar();
    if (open_.size() == kMaxDepth) return Fail("nested deeper than 10000");
    open_ += c;
    ++at_;
    SkipSpace();
    if (TakeClosing()) return true;
    value_follows_ = true;
    return c == '[' || Key();
  }

  // Behind a value: what closes, up to a comma or the end of the text.
  bool EndValues() {
    while (true) {
      SkipSpace();
      if (open_.empty()) {
        done_ = AtEnd();
        return done_ || Fail("text behind the value");
      }
      if (Take(',')) return open_.back() == '[' || Key();
      if (!TakeClosing()) {
        return Fail(AtEnd() ? "the text ends early" : "neither a comma nor a closing bracket");
      }
    }
  }

  bool TakeClosing() {
    if (!Take(open_.back() == '{' ? '}' : ']')) return false;
    open_.pop_back();
    return true;
  }

  bool Key() {
    SkipSpace();
    if (AtEnd()) return Fail("the text ends early");
    if (text_[at_] != '"') return Fail("not a key in quotes");
    if (!String()) return false;
    SkipSpace();
    return Take(':') || Fail(AtEnd() ? "the text ends early" : "no colon behind the key");
  }

  bool Scalar() {
    const char c = text_[at_];
    if (c == '"') return String();
    if (c == '-' || IsDigit(c)) return Number();
    for (const std::string_view word : {"null", "true", "false"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return true;
      }
    }
    return Fail("not a value");
  }

  bool String() {
    for (++at_; !AtEnd(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return Fail("control character in a string");
      if (c == '\\' && !Escape()) return false;
    }
    return Fail("the text ends early");
  }

  // Leaves the position at the escape's last character.
  bool Escape() {
    ++at_;
    if (AtEnd()) return Fail("the text ends early");
    if (text_[at_] != 'u') {
      return std::string_view("\"\\/bfnrt").find(text_[at_]) != std::string_view::npos ||
             Fail("unknown escape");
    }
    for (int i = 0; i < 4; ++i) {
      ++at_;
      if (AtEnd() || !IsHexDigit(text_[at_])) return Fail("\\u without four hex digits");
    }
    return true;
  }

  bool Number() {
    Take('-');
    if (!Take('0') && !Digits()) return Fail("not a number");
    if (Take('.') && !Digits()) return Fail("not a number");
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      if (!Digits()) return Fail("not a number");
    }
    return true;
  }

  bool Digits() {
    const size_t begin = at_;
    while (!AtEnd() && IsDigit(text_[at_])) ++at_;
    return at_ > begin;
  }

  void SkipSpace() {
    while (Take(' ') || Take('\t') || Take('\r') || Take('\n')) {
    }
  }

  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool AtEnd() const { return at_ == text_.size(); }

  bool Fail(std::string_view problem) {
    problem_ = problem;
    return false;
  }

  Error Failure() const {
    return {ErrorCode::kCorrupt,
            "not JSON at byte " + std::to_string(at_) + ": " + std::string(problem_)};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string open_;  // the brackets around the position
  bool value_follows_ = false;
  bool done_ = false;
  std::string_view problem_;
};

}  // namespace

Result<Done> CheckGoJson(std::string_view text) { return SyntaxChecker(text).Check(); }

}  // namespace alignd::checkpoint
