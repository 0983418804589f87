#include "picture/box.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "host/printable.h"
#include "picture/fitting.h"

namespace alignd::picture {
namespace {

constexpr size_t kMaxColumns = 64;

constexpr int kNarrowest = 43;
constexpr int kBeyondAscii = 105;
constexpr std::string_view kEllipsis = "…";

// The width of a character in 1/100 of the font's size: not less than that of DejaVu Sans, which is
// among the widest. Characters beyond ASCII can be as wide as high.
int WidthOf(unsigned char byte) {
  constexpr std::string_view kNarrow = " !'(),./:;[]|fijlIrt-";
  constexpr std::string_view kWide = "mwMW%@+=<>&~#";
  if (IsContinuation(static_cast<char>(byte))) return 0;  // counted with its character's first byte
  if (byte >= 0x80) return kBeyondAscii;
  if (kNarrow.find(static_cast<char>(byte)) != std::string_view::npos) return kNarrowest;
  if (kWide.find(static_cast<char>(byte)) != std::string_view::npos) return 102;
  return byte >= 'A' && byte <= 'Z' ? 80 : 66;
}

int Scaled(int hundredths, int size, bool bold) {
  if (bold) hundredths = hundredths * 112 / 100;
  return (hundredths * size + 99) / 100;
}

// The largest sum of WidthOf that Scaled makes `width` or less.
int UnscaledLimit(int width, int size, bool bold) {
  const int limit = width * 100 / size;
  return bold ? (limit * 100 + 99) / 112 : limit;
}

// Its columns are as wide, and its rows as high, as the largest box in them.
struct Measures {
  std::vector<int> widths;   // of the columns
  std::vector<int> heights;  // of the rows
  int width = 0;
  int height = 0;
};

Measures MeasureGrid(const std::vector<Box>& boxes, size_t columns, int gap) {
  Measures measures;
  measures.widths.resize(columns);
  measures.heights.resize((boxes.size() + columns - 1) / columns);
  for (size_t i = 0; i < boxes.size(); ++i) {
    int& width = measures.widths[i % columns];
    int& height = measures.heights[i / columns];
    width = std::max(width, boxes[i].width);
    height = std::max(height, boxes[i].height);
  }
  const auto sum = [gap](const std::vector<int>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), 0) +
           gap * static_cast<int>(sizes.size() - 1);
  };
  measures.width = sum(measures.widths);
  measures.height = sum(measures.heights);
  return measures;
}

// How far from the wanted: by the shape, and by places that stay empty.
double CostOf(const Measures& measures, size_t count, const Grid& grid) {
  const double shape = static_cast<double>(measures.width) / std::max(measures.height, 1);
  const auto places = static_cast<double>(measures.widths.size() * measures.heights.size());
  return std::abs(std::log(shape / grid.shape)) +
         4.0 * (places - static_cast<double>(count)) / places;
}

// Longer texts would let a plugin choose the size of the picture.
constexpr size_t kMaxTitle = 2000;
constexpr size_t kMaxLine = 500;

void Attribute(std::string& out, std::string_view name, std::string_view value) {
  out.append(" ").append(name).append("=\"").append(value).append("\"");
}

void Attribute(std::string& out, std::string_view name, int value) {
  Attribute(out, name, std::to_string(value));
}

void WriteBox(const Box& box, int left, int top, std::string& out) {
  const int x = left + box.x;
  const int y = top + box.y;
  out += "<g";
  if (!box.id.empty()) Attribute(out, "id", EscapeMarkup(box.id));
  out += ">";
  if (!box.title.empty()) {
    out += "<title>" + EscapeMarkup(Shortened(box.title, kMaxTitle)) + "</title>";
  }
  if (!box.paint.fill.empty()) {
    out += "<rect";
    Attribute(out, "x", x);
    Attribute(out, "y", y);
    Attribute(out, "width", box.width);
    Attribute(out, "height", box.height);
    Attribute(out, "rx", box.radius);
    Attribute(out, "fill", box.paint.fill);
    Attribute(out, "stroke", box.stroke);
    if (box.dashed) Attribute(out, "stroke-dasharray", "4 3");
    out += "/>";
  }
  for (const Line& line : box.lines) {
    out += "<text";
    Attribute(out, "x", x + line.x);
    Attribute(out, "y", y + line.y);
    Attribute(out, "font-size", line.size);
    if (line.bold) Attribute(out, "font-weight", "bold");
    if (line.centred) Attribute(out, "text-anchor", "middle");
    Attribute(out, "fill", line.fill);
    out += ">" + EscapeMarkup(line.text) + "</text>";
  }
  if (!box.boxes.empty()) out += "\n";
  for (const Box& inner : box.boxes) WriteBox(inner, x, y, out);
  out += "</g>\n";
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  const std::string printable = host::Printable(text);
  std::string escaped;
  for (size_t i = 0; i < printable.size(); ++i) {
    // U+FFFE and U+FFFF are no characters of XML.
    const std::string_view next = std::string_view(printable).substr(i, 3);
    if (next == "\xef\xbf\xbe" || next == "\xef\xbf\xbf") {
      escaped += "\\uff" + std::string(next[2] == '\xbe' ? "fe" : "ff");
      i += 2;
      continue;
    }
    switch (printable[i]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += printable[i];
    }
  }
  return escaped;
}

int TextWidth(std::string_view text, int size, bool bold) {
  int width = 0;
  for (const char byte : text) width += WidthOf(static_cast<unsigned char>(byte));
  return Scaled(width, size, bold);
}

std::string Shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = bytes;
  // A character has at most four bytes. What goes on for longer is not UTF-8.
  while (end > 0 && bytes - end < 3 && IsContinuation(text[end])) --end;
  return std::string(text.substr(0, end)).append(kEllipsis);
}

Line FittedLine(std::string_view text, int x, int y, int width, int size, bool bold,
                std::string_view fill) {
  const int limit = UnscaledLimit(std::max(width, 0), size, bold);
  // What remains of a longer text is still too wide, because no character is narrower: escapes,
  // which are six times as long, are not made of what is not shown.
  const size_t enough = 4 * (static_cast<size_t>(limit / kNarrowest) + 1);
  std::string shown = host::Printable(Shortened(text, std::min(enough, kMaxLine)));
  if (const auto end = FittingBytes(shown, limit, kBeyondAscii, WidthOf)) {
    shown.resize(*end);
    shown += kEllipsis;
  }
  return {.x = x, .y = y, .size = size, .bold = bold, .fill = fill, .text = std::move(shown)};
}

Box InGrid(std::vector<Box> boxes, const Grid& grid) {
  Box all;
  if (boxes.empty()) return all;
  Measures best;
  double lowest = 0;
  for (size_t columns = 1; columns <= std::min(boxes.size(), kMaxColumns); ++columns) {
    Measures measures = MeasureGrid(boxes, columns, grid.gap);
    const double cost = CostOf(measures, boxes.size(), grid);
    if (columns > 1 && cost >= lowest) continue;
    lowest = cost;
    best = std::move(measures);
  }
  const size_t columns = best.widths.size();
  int y = 0;
  for (size_t first = 0; first < boxes.size(); first += columns) {
    const int height = best.heights[first / columns];
    int x = 0;
    for (size_t i = first; i < std::min(first + columns, boxes.size()); ++i) {
      boxes[i].x = x;
      boxes[i].y = y;
      x += best.widths[i - first] + grid.gap;
      if (!grid.stretch) continue;
      boxes[i].width = best.widths[i - first];
      boxes[i].height = height;
    }
    y += height + grid.gap;
  }
  all.width = best.width;
  all.height = best.height;
  all.boxes = std::move(boxes);
  return all;
}

Box InRows(std::vector<Box> boxes, int width, int gap) {
  Box all;
  int x = 0;
  int y = 0;
  int row = 0;
  for (Box& box : boxes) {
    if (x > 0 && x + box.width > width) {
      x = 0;
      y += row + gap;
      row = 0;
    }
    box.x = x;
    box.y = y;
    all.width = std::max(all.width, x + box.width);
    x += box.width + gap;
    row = std::max(row, box.height);
    all.height = y + row;
  }
  all.boxes = std::move(boxes);
  return all;
}

Box InColumn(std::vector<Box> boxes, int gap) {
  Box all;
  for (const Box& box : boxes) all.width = std::max(all.width, box.width);
  for (Box& box : boxes) {
    box.x = 0;
    box.y = all.height + (all.height > 0 ? gap : 0);
    box.width = all.width;
    all.height = box.y + box.height;
  }
  all.boxes = std::move(boxes);
  return all;
}

void Enclose(Box& frame, Box inner, int padding) {
  int top = padding;
  int width = inner.width;
  for (const Line& line : frame.lines) {
    top = std::max(top, line.y + padding);
    width = std::max(width, line.x - padding + TextWidth(line.text, line.size, line.bold));
  }
  inner.x = padding;
  inner.y = top;
  frame.width = std::max(frame.width, width + 2 * padding);
  frame.height = top + inner.height + (inner.height > 0 ? padding : 0);
  if (!inner.boxes.empty()) frame.boxes.push_back(std::move(inner));
}

std::string WriteSvg(const Box& root, std::string_view title) {
  const std::string width = std::to_string(root.width);
  const std::string height = std::to_string(root.height);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"";
  Attribute(out, "width", width);
  Attribute(out, "height", height);
  Attribute(out, "viewBox", "0 0 " + width + " " + height);
  Attribute(out, "font-family", "DejaVu Sans, Helvetica, Arial, sans-serif");
  out += ">\n<title>" + EscapeMarkup(title) + "</title>\n";
  WriteBox(root, 0, 0, out);
  return out + "</svg>\n";
}

}  // namespace alignd::picture
