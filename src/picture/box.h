// Boxes with texts, laid out without overlap and written as SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "picture/palette.h"

namespace alignd::picture {

// A line of text. `y` is its baseline, and `x` its left end or, centred, its middle. Its place is
// relative to its box.
struct Line {
  int x = 0;
  int y = 0;
  int size = 12;
  bool bold = false;
  std::string_view fill = kInk;
  std::string text{};
  bool centred = false;
};

// The place of a box is relative to the box that it is in.
struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  std::string id{};     // of the element; unique; empty: none
  std::string title{};  // the tool tip; empty: none
  Paint paint{};        // no fill: the box is not drawn, only what is in it
  std::string_view stroke = kLine;
  bool dashed = false;
  int radius = 4;
  std::vector<Line> lines{};
  std::vector<Box> boxes{};
};

// The text as it stands in XML and HTML: printable, with `&`, `<`, `>` and quotes escaped.
std::string EscapeMarkup(std::string_view text);

// Not less than the width of the text in any common sans-serif font.
int TextWidth(std::string_view text, int size, bool bold = false);

// The first `bytes` of the text at most, of whole characters, and an ellipsis if that is not all.
std::string Shortened(std::string_view text, size_t bytes);

// A line that is shortened with an ellipsis to `width`, of which nothing but the ellipsis may
// remain. Printable, not escaped.
Line FittedLine(std::string_view text, int x, int y, int width, int size, bool bold = false,
                std::string_view fill = kInk);

struct Grid {
  int gap = 6;
  double shape = 1.8;   // the wanted width, as a multiple of the height
  bool stretch = true;  // boxes get the width of their column and the height of their row
};

// Puts the boxes into a grid whose columns are chosen for the wanted shape. The result is not
// drawn itself.
Box InGrid(std::vector<Box> boxes, const Grid& grid);

// Puts the boxes into rows that are not wider than `width`, unless one box is.
Box InRows(std::vector<Box> boxes, int width, int gap);

// Puts the boxes below each other, each as wide as the widest.
Box InColumn(std::vector<Box> boxes, int gap);

// Puts `inner` into `frame`, below its lines, and makes the frame large enough for both.
void Enclose(Box& frame, Box inner, int padding);

// An SVG document that shows `root`, with a line end.
std::string WriteSvg(const Box& root, std::string_view title);

}  // namespace alignd::picture
