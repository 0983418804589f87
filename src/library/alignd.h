/* libalignd: where would a pod fit? The decisions of alignd for programs in any language. Texts are
 * JSON in UTF-8 that ends with a zero byte. docs/library.md describes them.
 *
 * All functions are thread-safe and keep nothing between calls. None of them throws, prints, reads
 * a file or uses the network. Without an address for the result they do nothing and return
 * ALIGND_ERROR; another argument that is NULL and must not be is an error like each other. */
#ifndef ALIGND_H
#define ALIGND_H

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The version of this interface. It grows when functions or members of the texts are added.
 * Nothing is changed or removed before the library's name changes (libalignd.so.0). */
#define ALIGND_API_VERSION 1

/* The interface version of the library that the program has loaded. */
unsigned alignd_api_version(void);

/* The version of alignd, such as "0.1.0". Not to be freed. */
const char* alignd_version(void);

enum {
  ALIGND_OK = 0,       /* the result is the answer */
  ALIGND_ERROR = 1,    /* the result is {"error": {"code", "message", "remedy"}} */
  ALIGND_NO_MEMORY = 2 /* there is no result */
};

/* Whether one pod fits on one node, and where it would be placed.
 *
 * node:   a node as {"name", "node", "config", "devices", "object", "running", "files"}
 * pod:    an object that makes one pod, such as a v1 Pod
 * result: receives a text to be freed with alignd_free; NULL with ALIGND_NO_MEMORY
 *
 * A pod that does not fit is an answer, not an error. */
int alignd_simulate(const char* node, const char* pod, char** result);

/* Which nodes can take pods, in which order, and how many pods fit.
 *
 * nodes:   an array of such nodes
 * pods:    an object that makes pods, a List, or an array of them
 * options: {"score", "replicas", "compare", "config"}; NULL: none
 * result:  as above */
int alignd_fit(const char* nodes, const char* pods, const char* options, char** result);

/* Frees a result. NULL is ignored. */
void alignd_free(char* result);

#ifdef __cplusplus
}
#endif

#endif
