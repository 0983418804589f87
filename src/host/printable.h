// Texts of other programs, made harmless for a terminal, for a log of lines, and as keys.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace alignd::host {

// The text with everything escaped that is no visible character: control characters, line ends and
// tabs among them (`\n`, `\u001b`), characters that change the direction of text or are invisible
// (`\u202e`), and bytes that are not UTF-8 (`\xff`). Other characters stay. The escapes of
// characters are those of JSON, so that a JSON text stays the same JSON. Thread-safe.
//
// It is applied where a text leaves alignd for a person: in the formatter of the log, in the
// streams of alignctl, and in the status of a call that alignd answers.
std::string Printable(std::string_view text);

// Whether the text is UTF-8 without control characters. It can be a key of the state files, and may
// have invisible characters, which Printable shows.
bool IsText(std::string_view text);

// The text with everything that IsText excludes as `\xNN`, byte by byte. It stays as it is if
// IsText. Not for a person: see Printable.
std::string Escaped(std::string_view text);

// While it exists, what is written to `stream` is Printable, except the ends of lines. Its
// destructor writes what is left. One thread at a time.
class PrintableStream {
 public:
  explicit PrintableStream(std::ostream& stream);
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;
  ~PrintableStream();

  // Writes `text` as it is, also if `stream` is printable: colours, which the program itself sets.
  static void WriteRaw(std::ostream& stream, std::string_view text);

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(std::streambuf* target) : target_(target) {}
    std::streambuf* target() const { return target_; }
    // After what is not written yet. False: it cannot be written.
    bool WriteAsIs(std::string_view text);

   protected:
    int_type overflow(int_type byte) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;

   private:
    bool WriteLine();

    std::streambuf* const target_;  // null: the stream has none, and fails
    std::string line_;              // not written yet
  };

  std::ostream& stream_;
  Buffer buffer_;
};

}  // namespace alignd::host
