/* lib.h - libmicrohttpd and libcurl, loaded when they are first needed.
 *
 * Together they bring thirty more libraries: 5 MB of memory and 5 ms at the start of every process,
 * also of those that never speak HTTP, such as the agent on each node. So they are not linked but
 * opened here. The tables are filled once and never change; any thread may ask. Private to
 * src/http and to master's webhooks.
 */
#ifndef HTTP_LIB_H
#define HTTP_LIB_H

#include "base/err.h"

#include <curl/curl.h>
#include <microhttpd.h>

/* Macros that check types would hide the table's members. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define LIB_MHD(X)                                                                                 \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)                                                                             \
    X(MHD_add_connection)                                                                          \
    X(MHD_get_daemon_info)                                                                         \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_get_timeout)                                                                             \
    X(MHD_run)                                                                                     \
    X(MHD_suspend_connection)                                                                      \
    X(MHD_resume_connection)                                                                       \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_create_response_from_buffer_with_free_callback_cls)                                      \
    X(MHD_create_response_from_fd_at_offset64)                                                     \
    X(MHD_create_response_from_callback)                                                           \
    X(MHD_add_response_header)                                                                     \
    X(MHD_queue_response)                                                                          \
    X(MHD_destroy_response)

#define LIB_CURL(X)                                                                                \
    X(curl_global_init)                                                                            \
    X(curl_easy_init)                                                                              \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_multi_init)                                                                             \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_info_read)

#define LIB_MEMBER(name) __typeof__(name) *name; // NOLINT(bugprone-macro-parentheses)
struct lib_mhd {
    LIB_MHD(LIB_MEMBER)
};
struct lib_curl {
    LIB_CURL(LIB_MEMBER)
};

/* ERR_UNSUPPORTED: it is not installed; the text names the Debian package. */
MUST_USE enum err_code lib_load_mhd(const struct lib_mhd **out, struct err *err);
/* Also calls curl_global_init, once. */
MUST_USE enum err_code lib_load_curl(const struct lib_curl **out, struct err *err);

#endif
