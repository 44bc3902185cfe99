#include "http/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in its table */
};

#define MHD_SYMBOL(name) {#name, offsetof(struct lib_mhd, name)},
#define CURL_SYMBOL(name) {#name, offsetof(struct lib_curl, name)},
static const struct symbol mhd_symbols[] = {LIB_MHD(MHD_SYMBOL)};
static const struct symbol curl_symbols[] = {LIB_CURL(CURL_SYMBOL)};

/* Written once, by whoever comes first. */
static struct lib_mhd mhd;
static struct lib_curl curl;
static struct err mhd_trouble;
static struct err curl_trouble;

/* Never closed: both start things of their own that must not lose their code. */
static void load(const char *file, const char *package, const struct symbol *symbols, size_t count,
                 void *table, struct err *trouble)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        err_set(trouble, ERR_UNSUPPORTED, "%s cannot be loaded (%s); install %s", file, dlerror(),
                package);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (!function) {
            err_set(trouble, ERR_UNSUPPORTED, "%s has no %s; install a newer %s", file,
                    symbols[i].name, package);
            return;
        }
        memcpy((char *)table + symbols[i].offset, &function, sizeof function);
    }
}

static void load_mhd(void)
{
    load("libmicrohttpd.so.12", "libmicrohttpd12", mhd_symbols,
         sizeof mhd_symbols / sizeof mhd_symbols[0], &mhd, &mhd_trouble);
}

static void load_curl(void)
{
    load("libcurl.so.4", "libcurl4", curl_symbols, sizeof curl_symbols / sizeof curl_symbols[0],
         &curl, &curl_trouble);
    if (curl_trouble.code == ERR_OK && curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        err_set(&curl_trouble, ERR_UNSUPPORTED, "libcurl does not start");
    }
}

enum err_code lib_load_mhd(const struct lib_mhd **out, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_mhd);
    if (mhd_trouble.code != ERR_OK) {
        return err_set(err, mhd_trouble.code, "%s", mhd_trouble.text);
    }
    *out = &mhd;
    return ERR_OK;
}

enum err_code lib_load_curl(const struct lib_curl **out, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_curl);
    if (curl_trouble.code != ERR_OK) {
        return err_set(err, curl_trouble.code, "%s", curl_trouble.text);
    }
    *out = &curl;
    return ERR_OK;
}
