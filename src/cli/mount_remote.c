#include "cli/mount_remote.h"

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "meta/dealer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOIN_MS = 20 * 1000 };

bool mount_remote_is_address(const char *text)
{
    return text[0] == '@' || strncmp(text, "drover://", 9) == 0;
}

static char *word(const char *text)
{
    return text && text[0] ? mem_strdup(text) : NULL;
}

/* The store as the owner names it, and as the command line corrects it. */
static enum err_code open_store(const Drover__MetaWelcome *welcome,
                                const struct mount_remote_options *options,
                                struct object_store **out, struct err *err)
{
    struct volume_ref ref = {.url = word(welcome->url),
                             .endpoint = word(welcome->endpoint),
                             .region = word(welcome->region),
                             .addressing = word(welcome->addressing)};
    volume_ref_override(&ref, options->over);
    enum err_code code = volume_ref_store(&ref, false, out, err);
    volume_ref_release(&ref);
    return code;
}

/* As a mount of that store would be called, so that commands about the volume find it. */
static void add_label(const Drover__MetaWelcome *welcome, struct str *out)
{
    struct volume_ref ref = {.url = welcome->url,
                             .endpoint = welcome->endpoint[0] ? welcome->endpoint : NULL};
    volume_ref_add_label(out, &ref);
}

static enum err_code check_format(struct object_store *store, const Drover__MetaWelcome *welcome,
                                  struct volume_format *format, struct err *err)
{
    enum err_code code = volume_format_read(store, format, err);
    if (code == ERR_OK && memcmp(format->uuid, welcome->uuid.data, sizeof format->uuid) != 0) {
        code = err_set(err, ERR_INVALID, "%s: from here that is another volume than the owner's",
                       welcome->url);
    }
    return code;
}

static enum err_code open_reader(struct object_store *store, const struct volume_format *format,
                                 const struct mount_remote_options *options, struct reader **out,
                                 struct err *err)
{
    AUTO_STR struct str folder = {0};
    struct reader_options how = {.folder = options->cache_folder,
                                 .folder_bytes = options->cache_bytes};
    enum err_code code = ERR_OK;
    if (!options->cache_folder) {
        code = volume_ref_cache(format, &folder, err);
        str_add(&folder, "/packs");
        if (code == ERR_OK) {
            code = io_make_dirs(str_text(&folder), err);
        }
        how.folder = str_text(&folder);
    } else if (options->cache_folder[0] == '\0') {
        how.folder = NULL;
    }
    return code == ERR_OK ? reader_create(store, &how, out, err) : code;
}

static enum err_code serve_joined(struct meta_dealer *dealer,
                                  const struct mount_remote_options *options, struct err *err)
{
    const Drover__MetaWelcome *welcome = meta_link_welcome(meta_dealer_link(dealer));
    struct volume_format format;
    struct object_store *store = NULL;
    struct reader *reader = NULL;
    enum err_code code = open_store(welcome, options, &store, err);
    if (code == ERR_OK) {
        code = check_format(store, welcome, &format, err);
    }
    if (code == ERR_OK) {
        code = open_reader(store, &format, options, &reader, err);
    }
    if (code == ERR_OK) {
        struct mount_remote remote = {dealer, store, &format};
        code = mount_run_remote(&remote, reader, &options->mount, err);
    }
    object_close(store);
    reader_destroy(reader);
    return code;
}

enum err_code mount_remote_serve(const struct mount_remote_options *options, struct err *err)
{
    struct mount_remote_options mine = *options;
    struct door_url url = {0};
    struct meta_dealer *dealer = NULL;
    AUTO_STR struct str who = {0};
    AUTO_STR struct str label = {0};
    char host[HOST_NAME_MAX + 1] = "";
    const char *file = options->address[0] == '@' ? options->address + 1 : NULL;

    gethostname(host, sizeof host - 1);
    str_addf(&who, "%s:%d at %s", host, (int)getpid(), options->mount.folder);
    enum err_code code = meta_url_read(options->address, &url, err);
    if (code == ERR_OK) {
        code = meta_dealer_open(&url, file, str_text(&who), &dealer, err);
    }
    explicit_bzero(&url, sizeof url);
    if (code == ERR_OK) {
        code = meta_dealer_join(dealer, JOIN_MS, err);
    }
    if (code == ERR_OK) {
        add_label(meta_link_welcome(meta_dealer_link(dealer)), &label);
        mine.mount.label = str_text(&label);
        code = serve_joined(dealer, &mine, err);
        meta_dealer_close(dealer, code == ERR_OK);
    } else {
        meta_dealer_close(dealer, false);
    }
    return code;
}
