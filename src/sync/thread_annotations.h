// Clang's thread-safety annotations by their usual names: which mutex guards which member, and
// which function needs it locked. The clang build checks them; other compilers ignore them.
#pragma once

#if defined(__clang__)
#define ALIGND_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ALIGND_THREAD_ANNOTATION(x)
#endif

// Abseil, which gRPC includes, defines this name with the same meaning.
#ifndef GUARDED_BY
#define GUARDED_BY(x) ALIGND_THREAD_ANNOTATION(guarded_by(x))
#endif

#define CAPABILITY(x) ALIGND_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY ALIGND_THREAD_ANNOTATION(scoped_lockable)
#define ACQUIRE(...) ALIGND_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) ALIGND_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define REQUIRES(...) ALIGND_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) ALIGND_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
