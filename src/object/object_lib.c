#include "object/object_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in the table */
};

#define SYMBOL(name) {#name, offsetof(struct object_lib, name)},
static const struct symbol curl_symbols[] = {OBJECT_LIB_CURL(SYMBOL)};
static const struct symbol crypto_symbols[] = {OBJECT_LIB_CRYPTO(SYMBOL)};

/* Written once, by whoever comes first. */
static struct object_lib lib;
static struct err trouble;

/* Never closed: they start things of their own that must not lose their code. */
static void load(const char *file, const char *package, const struct symbol *symbols, size_t count)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        err_set(&trouble, ERR_UNSUPPORTED, "%s cannot be loaded (%s); install %s", file, dlerror(),
                package);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (!function) {
            err_set(&trouble, ERR_UNSUPPORTED, "%s has no %s; install a newer %s", file,
                    symbols[i].name, package);
            return;
        }
        memcpy((char *)&lib + symbols[i].offset, &function, sizeof function);
    }
}

static void load_all(void)
{
    load("libcrypto.so.3", "libssl3", crypto_symbols,
         sizeof crypto_symbols / sizeof crypto_symbols[0]);
    if (trouble.code == ERR_OK) {
        load("libcurl.so.4", "libcurl4", curl_symbols,
             sizeof curl_symbols / sizeof curl_symbols[0]);
    }
    if (trouble.code == ERR_OK && lib.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        err_set(&trouble, ERR_UNSUPPORTED, "libcurl does not start");
    }
}

enum err_code object_lib_load(const struct object_lib **out, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_all);
    if (trouble.code != ERR_OK) {
        return err_set(err, trouble.code, "%s", trouble.text);
    }
    *out = &lib;
    return ERR_OK;
}
