/* Stores by URL: the driver that the URL names, and retries around it. */
#include "base/rng.h"
#include "object/object_driver.h"
#include "object/object_url.h"

#include <string.h>

static enum err_code judge_options(const struct object_options *options, struct err *err)
{
    if (options->addressing && strcmp(options->addressing, "path") != 0 &&
        strcmp(options->addressing, "virtual") != 0) {
        return err_set(err, ERR_INVALID, "store: addressing is path or virtual, not '%.64s'",
                       options->addressing);
    }
    if (options->timeout_ms < 0) {
        return err_set(err, ERR_INVALID, "store: a timeout of %d ms", options->timeout_ms);
    }
    return ERR_OK;
}

enum err_code object_open(const char *url, const struct object_options *options,
                          struct object_store **out, struct err *err)
{
    static const struct object_options none;
    options = options ? options : &none;
    struct object_url place;
    enum err_code code = judge_options(options, err);
    if (code == ERR_OK) {
        code = object_url_parse(url, &place, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct object_store *driver = NULL;
    switch (place.kind) {
    case OBJECT_URL_FILE:
        code = object_directory_open(str_text(&place.place), options->create, &driver, err);
        break;
    case OBJECT_URL_S3:
        code =
            object_s3_open(str_text(&place.place), str_text(&place.prefix), options, &driver, err);
        break;
    case OBJECT_URL_MEMORY:
        driver = object_memory_open_alone();
        break;
    }
    object_url_release(&place);
    if (code == ERR_OK) {
        struct object_patience patience = {.seed = rng_seed_from_system()};
        *out = object_retry_create(driver, &patience);
    }
    return code;
}
