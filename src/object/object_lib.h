/* object_lib.h - libcurl and libcrypto, loaded when the first S3 store is opened.
 *
 * With what they bring they cost every process that links them memory and time at its start, also
 * those that never speak to an object store over the network. The tables are filled once and never
 * change; any thread may ask. Private to src/object.
 */
#ifndef OBJECT_OBJECT_LIB_H
#define OBJECT_OBJECT_LIB_H

#include "base/err.h"

#include <curl/curl.h>
#include <openssl/evp.h>

/* Macros that check types would hide the table's members. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define OBJECT_LIB_CURL(X)                                                                         \
    X(curl_global_init)                                                                            \
    X(curl_easy_init)                                                                              \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_multi_init)                                                                             \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_setopt)                                                                           \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_assign)                                                                           \
    X(curl_multi_socket_action)                                                                    \
    X(curl_multi_info_read)

#define OBJECT_LIB_CRYPTO(X)                                                                       \
    X(EVP_Digest)                                                                                  \
    X(EVP_md5)

#define OBJECT_LIB_MEMBER(name) __typeof__(name) *name; // NOLINT(bugprone-macro-parentheses)
struct object_lib {
    OBJECT_LIB_CURL(OBJECT_LIB_MEMBER)
    OBJECT_LIB_CRYPTO(OBJECT_LIB_MEMBER)
};

/* ERR_UNSUPPORTED: one is not installed; the text names the Debian package. */
MUST_USE enum err_code object_lib_load(const struct object_lib **out, struct err *err);

#endif
