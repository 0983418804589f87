// Linked into a test program, this makes every test fail that begins to use gRPC.
//
// Debian's gRPC is built without the thread sanitizer, which therefore reports races in it. Without
// this file, a test in the wrong program would be found only by the stage with that sanitizer.
#include <dlfcn.h>
#include <gtest/gtest.h>

// The gRPC libraries are shared ones: they call this function instead of gRPC's own.
extern "C" void grpc_init() {
  ADD_FAILURE() << "this test uses gRPC: move it to component_test";
  reinterpret_cast<void (*)()>(dlsym(RTLD_NEXT, "grpc_init"))();
}
