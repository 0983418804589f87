// What holds of every picture: it is XML, no boxes overlap, and texts are inside their boxes.
#pragma once

#include <expat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "picture/box.h"

namespace alignd::picture {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes{};
  std::string text{};
  std::vector<Element> elements{};

  int Number(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? 0 : std::stoi(found->second);
  }
};

// The root; its name is empty if the text is not well-formed XML, with a failure of the test.
inline Element ParseXml(const std::string& xml) {
  struct Reading {
    Element top;
    std::vector<Element> open{};
  } reading;
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
      XML_ParserCreate("UTF-8"), &XML_ParserFree);
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(
      parser.get(),
      [](void* data, const char* name, const char** attributes) {
        Element element{.name = name};
        for (; *attributes != nullptr; attributes += 2) {
          element.attributes[attributes[0]] = attributes[1];
        }
        static_cast<Reading*>(data)->open.push_back(std::move(element));
      },
      [](void* data, const char*) {
        auto& [top, open] = *static_cast<Reading*>(data);
        Element element = std::move(open.back());
        open.pop_back();
        (open.empty() ? top : open.back().elements.emplace_back()) = std::move(element);
      });
  XML_SetCharacterDataHandler(parser.get(), [](void* data, const char* text, int size) {
    static_cast<Reading*>(data)->open.back().text.append(text, static_cast<size_t>(size));
  });
  if (XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), 1) != XML_STATUS_OK) {
    ADD_FAILURE() << "line " << XML_GetCurrentLineNumber(parser.get()) << ": "
                  << XML_ErrorString(XML_GetErrorCode(parser.get()));
    return {};
  }
  return reading.top;
}

struct Area {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;

  bool Contains(const Area& other) const {
    return left <= other.left && top <= other.top && other.right <= right && other.bottom <= bottom;
  }
  bool Overlaps(const Area& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Area& area) {
  return out << area.left << "," << area.top << "-" << area.right << "," << area.bottom;
}

inline Area AreaOf(const Element& rect) {
  const int x = rect.Number("x");
  const int y = rect.Number("y");
  return {x, y, x + rect.Number("width"), y + rect.Number("height")};
}

inline Area AreaOfText(const Element& text) {
  const int size = text.Number("font-size");
  const int width = TextWidth(text.text, size, text.attributes.contains("font-weight"));
  const int x = text.Number("x") - (text.attributes.contains("text-anchor") ? width / 2 : 0);
  const int y = text.Number("y");
  return {x, y - size * 3 / 4, x + width, y + size / 4};
}

// Checks the group; returns what is drawn of it and overlaps nothing else: its frame, or what is in
// it. `around`: the frame that it is in.
inline std::vector<Area> CheckGroup(const Element& group, Area around, std::set<std::string>& ids) {
  const auto id = group.attributes.find("id");
  if (id != group.attributes.end()) {
    EXPECT_TRUE(ids.insert(id->second).second) << id->second;
  }
  const auto frame = std::ranges::find(group.elements, "rect", &Element::name);
  const bool has_frame = frame != group.elements.end();
  if (has_frame) {
    EXPECT_TRUE(around.Contains(AreaOf(*frame))) << AreaOf(*frame) << " in " << around;
    around = AreaOf(*frame);
  }
  std::vector<Area> drawn;
  for (const Element& element : group.elements) {
    std::vector<Area> areas;
    if (element.name == "g") areas = CheckGroup(element, around, ids);
    if (element.name == "text") areas = {AreaOfText(element)};
    for (const Area& area : areas) {
      EXPECT_TRUE(around.Contains(area)) << element.text << area << " in " << around;
      for (const Area& other : drawn) {
        EXPECT_FALSE(area.Overlaps(other)) << element.text << area << " and " << other;
      }
    }
    drawn.insert(drawn.end(), areas.begin(), areas.end());
  }
  return has_frame ? std::vector<Area>{around} : drawn;
}

// All texts and tool tips of the element, a line each.
inline std::string WordsOf(const Element& element) {
  std::string words = element.text.find_first_not_of('\n') == std::string::npos
                          ? std::string()
                          : element.text + "\n";
  for (const Element& inner : element.elements) words += WordsOf(inner);
  return words;
}

// Checks the whole picture; returns its root. `ids`: of its elements, if they are wanted.
inline Element CheckPicture(const std::string& svg, std::set<std::string>* ids = nullptr) {
  const Element root = ParseXml(svg);
  EXPECT_EQ(root.name, "svg");
  std::set<std::string> found;
  for (const Element& element : root.elements) {
    if (element.name != "g") continue;
    CheckGroup(element, {0, 0, root.Number("width"), root.Number("height")}, found);
  }
  if (ids != nullptr) *ids = found;
  return root;
}

}  // namespace alignd::picture
