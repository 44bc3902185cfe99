#include "cli/volume_ref.h"

#include "base/io.h"
#include "base/jread.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIST_FILE_MAX = 64 << 10, NAME_MAX_BYTES = 100 };
enum { OWNER_TRIES = 5, OWNER_WAIT_US = 100000 };

void volume_ref_release(struct volume_ref *ref)
{
    free(ref->name);
    free(ref->url);
    free(ref->snapshot);
    free(ref->path);
    free(ref->endpoint);
    free(ref->region);
    free(ref->ca_file);
    free(ref->addressing);
    free(ref->profile);
    *ref = (struct volume_ref){0};
}

static bool is_address(const char *text)
{
    return strncmp(text, "file://", 7) == 0 || strncmp(text, "s3://", 5) == 0;
}

static bool name_is_sound(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t size = strlen(name);
    return size > 0 && size <= NAME_MAX_BYTES && name[0] != '.' && name[0] != '-' &&
           strspn(name, allowed) == size;
}

/* Where ":/PATH" begins; NULL: there is none. */
static const char *find_path(const char *text)
{
    const char *from = is_address(text) ? strstr(text, "://") + 3 : text;
    return strstr(from, ":/");
}

bool volume_ref_looks_like_one(const char *text)
{
    if (is_address(text)) {
        return true;
    }
    const char *path = find_path(text);
    const char *slash = strchr(text, '/');
    return path != NULL && slash == path + 1;
}

/* The drover folder of a kind of files: below the variable's folder, or in HOME. */
static enum err_code user_folder(const char *variable, const char *below_home, struct str *out,
                                 struct err *err)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");
    if (base && base[0] == '/') {
        str_addf(out, "%s/drover", base);
    } else if (home && home[0] == '/') {
        str_addf(out, "%s/%s/drover", home, below_home);
    } else {
        return err_set(err, ERR_INVALID, "neither HOME nor %s is set to a folder", variable);
    }
    return ERR_OK;
}

static enum err_code list_path(const char *name, struct str *out, struct err *err)
{
    enum err_code code = user_folder("XDG_DATA_HOME", ".local/share", out, err);
    str_add(out, "/volumes");
    if (code == ERR_OK && name) {
        str_addf(out, "/%s.json", name);
    }
    return code;
}

static char *copy_text(const struct jnode *object, const char *key)
{
    const char *text = jread_text(object, key, NULL);
    return text ? mem_strdup(text) : NULL;
}

static enum err_code list_read(const char *name, struct volume_ref *out, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct jread doc = {0};
    enum err_code code = list_path(name, &path, err);
    if (code == ERR_OK) {
        code = io_read_file(str_text(&path), LIST_FILE_MAX, &text, err);
    }
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_NOT_FOUND,
                       "%s: no volume of that name (drover volume list; drover volume create %s "
                       "--store URL)",
                       name, name);
    }
    if (code == ERR_OK) {
        code = jread_parse(&doc, str_text(&text), text.size, err);
    }
    if (code == ERR_OK && !is_address(jread_text(doc.root, "store", ""))) {
        code = err_set(err, ERR_CORRUPT, "%s: holds no address of a store", str_text(&path));
    }
    if (code == ERR_OK) {
        out->name = mem_strdup(name);
        out->url = copy_text(doc.root, "store");
        out->endpoint = copy_text(doc.root, "endpoint");
        out->region = copy_text(doc.root, "region");
        out->ca_file = copy_text(doc.root, "ca_file");
        out->addressing = copy_text(doc.root, "addressing");
        out->profile = copy_text(doc.root, "profile");
    }
    jread_release(&doc);
    return code;
}

enum err_code volume_ref_parse(const char *text, struct volume_ref *out, struct err *err)
{
    const char *path = find_path(text);
    size_t size = path ? (size_t)(path - text) : strlen(text);
    AUTO_FREE char *place = mem_strndup(text, size);
    struct volume_ref ref = {.path = path ? mem_strdup(path + 1) : NULL};

    char *at = strrchr(place, '@');
    char *slash = strrchr(place, '/');
    if (at && (!slash || at > slash)) {
        *at = '\0';
        ref.snapshot = mem_strdup(at + 1);
    }
    enum err_code code = ERR_OK;
    if (is_address(place)) {
        ref.url = mem_strdup(place);
    } else if (!name_is_sound(place)) {
        code = err_set(err, ERR_INVALID,
                       "%s: not a volume (NAME, file:///folder or s3://bucket/prefix, with "
                       "@SNAPSHOT and :/PATH where they are needed)",
                       text);
    } else {
        code = list_read(place, &ref, err);
    }
    if (code == ERR_OK && ref.snapshot && !name_is_sound(ref.snapshot)) {
        code =
            err_set(err, ERR_INVALID, "%s: '%s' cannot be a snapshot's name", text, ref.snapshot);
    }
    if (code != ERR_OK) {
        volume_ref_release(&ref);
        return code;
    }
    *out = ref;
    return ERR_OK;
}

static void add_member(struct json *json, const char *key, const char *value)
{
    if (value) {
        json_key(json, key);
        json_text(json, value);
    }
}

enum err_code volume_ref_save(const struct volume_ref *ref, struct err *err)
{
    AUTO_STR struct str folder = {0};
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};

    if (!name_is_sound(ref->name)) {
        return err_set(err, ERR_INVALID,
                       "%s: a volume's name is up to %d letters, digits, '.', '_' and '-', and "
                       "begins with none of the last three",
                       ref->name, NAME_MAX_BYTES);
    }
    json_object(&json);
    add_member(&json, "store", ref->url);
    add_member(&json, "endpoint", ref->endpoint);
    add_member(&json, "region", ref->region);
    add_member(&json, "ca_file", ref->ca_file);
    add_member(&json, "addressing", ref->addressing);
    add_member(&json, "profile", ref->profile);
    json_end(&json);
    str_add_char(&text, '\n');
    enum err_code code = list_path(NULL, &folder, err);
    if (code == ERR_OK) {
        code = io_make_dirs(str_text(&folder), err);
    }
    if (code == ERR_OK) {
        code = list_path(ref->name, &path, err);
    }
    if (code == ERR_OK && access(str_text(&path), F_OK) == 0) {
        code = err_set(err, ERR_EXISTS,
                       "%s: there is a volume of that name already (drover volume show %s; drover "
                       "volume delete %s forgets it)",
                       ref->name, ref->name, ref->name);
    }
    if (code == ERR_OK) {
        code = io_replace_file(str_text(&path), text.text, text.size, 0600, err);
    }
    return code;
}

enum err_code volume_ref_forget(const char *name, struct err *err)
{
    AUTO_STR struct str path = {0};
    enum err_code code = list_path(name, &path, err);
    if (code == ERR_OK && unlink(str_text(&path)) != 0) {
        code = err_errno(err, errno, "%s", str_text(&path));
    }
    return code;
}

static int is_list_file(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0;
}

enum err_code volume_ref_each(bool (*each)(void *context, const struct volume_ref *ref),
                              void *context, struct err *err)
{
    AUTO_STR struct str folder = {0};
    struct dirent **names = NULL;
    enum err_code code = list_path(NULL, &folder, err);
    if (code != ERR_OK) {
        return code;
    }
    int count = scandir(str_text(&folder), &names, is_list_file, alphasort);
    bool goes_on = true;
    for (int i = 0; i < count; i++) {
        size_t size = strlen(names[i]->d_name) - 5;
        AUTO_FREE char *name = mem_strndup(names[i]->d_name, size);
        struct volume_ref ref = {0};
        if (goes_on && name_is_sound(name) && list_read(name, &ref, err) == ERR_OK) {
            goes_on = each(context, &ref);
            volume_ref_release(&ref);
        }
        free(names[i]);
    }
    free(names);
    return ERR_OK;
}

void volume_ref_add_label(struct str *out, const struct volume_ref *ref)
{
    str_add(out, ref->url);
    if (ref->endpoint) {
        str_addf(out, "?%s", ref->endpoint);
    }
    if (ref->snapshot) {
        str_addf(out, "@%s", ref->snapshot);
    }
}

struct store_opening {
    const struct volume_ref *ref;
    bool create;
};

static enum err_code open_in_thread(void *context, struct object_store **out, struct err *err)
{
    const struct store_opening *opening = context;
    const struct volume_ref *ref = opening->ref;
    struct object_options options = {.endpoint = ref->endpoint,
                                     .region = ref->region,
                                     .ca_file = ref->ca_file,
                                     .addressing = ref->addressing,
                                     .profile = ref->profile,
                                     .create = opening->create};
    return object_open(ref->url, &options, out, err);
}

enum err_code volume_ref_store(const struct volume_ref *ref, bool create, struct object_store **out,
                               struct err *err)
{
    struct store_opening opening = {ref, create};
    return object_threaded_open(open_in_thread, &opening, out, err);
}

enum err_code volume_ref_cache(const struct volume_format *format, struct str *out, struct err *err)
{
    enum err_code code = user_folder("XDG_CACHE_HOME", ".cache", out, err);
    if (code == ERR_OK) {
        str_add(out, "/volumes/");
        for (size_t i = 0; i < sizeof format->uuid; i++) {
            str_addf(out, "%02x", format->uuid[i]);
        }
    }
    return code;
}

static enum err_code open_reader(const struct volume_use_options *options, struct volume_use *use,
                                 struct err *err)
{
    AUTO_STR struct str folder = {0};
    struct reader_options reader = {.folder = options->cache_folder,
                                    .folder_bytes = options->cache_bytes};
    if (options->cache_folder && options->cache_folder[0] == '\0') {
        reader.folder = NULL;
    } else if (!options->cache_folder) {
        enum err_code code = volume_ref_cache(volume_format(use->volume), &folder, err);
        if (code == ERR_OK) {
            str_add(&folder, "/packs");
            code = io_make_dirs(str_text(&folder), err);
        }
        if (code != ERR_OK) {
            return code;
        }
        reader.folder = str_text(&folder);
    }
    return reader_create(volume_store(use->volume), &reader, &use->reader, err);
}

enum err_code volume_use_advise(const struct volume_ref *ref, enum err_code code, struct err *err)
{
    struct err was = *err;
    if (code == ERR_NOT_FOUND && ref->snapshot && strncmp(was.text, "snapshot ", 9) == 0) {
        return err_set(err, code,
                       "snapshot %.100s: there is none (drover data snapshot --list %.300s)",
                       ref->snapshot, ref->name ? ref->name : ref->url);
    }
    if (code == ERR_NOT_FOUND && ref->url) {
        return err_set(err, code,
                       "%.200s: no volume is there (drover volume create NAME --store %.200s)",
                       ref->url, ref->url);
    }
    if (code == ERR_CORRUPT && strncmp(was.text, "log/", 4) == 0) {
        return err_set(err, code, "%.300s (drover volume repair %.130s says what can be done)",
                       was.text, ref->name ? ref->name : ref->url);
    }
    if (code == ERR_DENIED && strstr(was.text, "served by drover meta")) {
        return err_set(
            err, code,
            "%.300s (use it with drover mount @FILE FOLDER, where FILE is the volume.url "
            "that drover meta wrote)",
            was.text);
    }
    if (code == ERR_DENIED && strstr(was.text, "has an owner")) {
        bool is_mount = strstr(was.text, "has an owner: mounted") != NULL;
        return err_set(err, code,
                       "%.300s (%s; if that machine is gone for good: drover mount --take-over)",
                       was.text, is_mount ? "drover unmount it there" : "wait until it has ended");
    }
    return code;
}

enum err_code volume_state_path(struct str *out, struct err *err)
{
    return user_folder("XDG_STATE_HOME", ".local/state", out, err);
}

bool volume_locks_path(const char *state, struct str *out)
{
    bool has_place = volume_state_path(out, NULL) == ERR_OK;
    str_add(out, "/owners");
    has_place = has_place && io_make_dirs(str_text(out), NULL) == ERR_OK;
    if (!has_place && state) {
        str_clear(out);
        str_addf(out, "%s/owners", state);
        has_place = true;
    }
    return has_place;
}

enum err_code volume_use_open(const struct volume_ref *ref,
                              const struct volume_use_options *options, struct volume_use *out,
                              struct err *err)
{
    struct object_store *store;
    struct volume_use use = {0};
    enum err_code code = ERR_OK;

    if (ref->snapshot && options->writes) {
        return err_set(err, ERR_INVALID, "%s@%s: a snapshot cannot be written to",
                       ref->name ? ref->name : ref->url, ref->snapshot);
    }
    code = volume_ref_store(ref, false, &store, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str locks = {0};
    bool has_place = options->writes && volume_locks_path(options->state, &locks);
    struct volume_options how = {.role = options->writes ? VOLUME_OWNER : VOLUME_READER,
                                 .snapshot = ref->snapshot,
                                 .owner = options->owner,
                                 .locks = has_place ? str_text(&locks) : NULL,
                                 .take_over = options->take_over};
    code = volume_open(store, &how, &use.volume, err);
    for (int tries = 0; code == ERR_DENIED && tries < OWNER_TRIES; tries++) {
        usleep(OWNER_WAIT_US); /* an owner that was killed takes a moment to be gone */
        code = volume_open(store, &how, &use.volume, err);
    }
    if (code != ERR_OK) {
        object_close(store);
        return code;
    }
    code = open_reader(options, &use, err);
    if (code != ERR_OK) {
        (void)volume_close(use.volume, NULL);
        return code;
    }
    *out = use;
    return ERR_OK;
}

enum err_code volume_use_close(struct volume_use *use, struct err *err)
{
    enum err_code code = use->volume ? volume_close(use->volume, err) : ERR_OK;
    reader_destroy(use->reader); /* after the store: no fetch of its is in flight any more */
    *use = (struct volume_use){0};
    return code;
}

static char **option_place(struct volume_ref *ref, int option)
{
    switch (option) {
    case 1001:
        return &ref->endpoint;
    case 1002:
        return &ref->region;
    case 1003:
        return &ref->ca_file;
    case 1004:
        return &ref->addressing;
    case 1005:
        return &ref->profile;
    default:
        return NULL;
    }
}

bool volume_ref_option(struct volume_ref *over, int option, const char *value)
{
    char **place = option_place(over, option);
    if (!place) {
        return false;
    }
    free(*place);
    *place = mem_strdup(value);
    return true;
}

void volume_ref_override(struct volume_ref *ref, const struct volume_ref *over)
{
    for (int option = 1001; option <= 1005; option++) {
        char *value = *option_place((struct volume_ref *)over, option);
        if (value) {
            (void)volume_ref_option(ref, option, value);
        }
    }
}

int volume_ref_exit(enum err_code code)
{
    if (code == ERR_OK) {
        return EXIT_DONE;
    }
    if (code == ERR_AGAIN || code == ERR_TIMEOUT) {
        return EXIT_UNREACHABLE;
    }
    return code == ERR_INVALID || code == ERR_NOT_FOUND || code == ERR_EXISTS || code == ERR_RANGE
               ? EXIT_USAGE
               : EXIT_WORK_FAILED;
}
