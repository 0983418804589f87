// Nothing but the precompiled headers of the edges' tests: see tests/CMakeLists.txt.
