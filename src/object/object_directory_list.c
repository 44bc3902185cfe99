/* LIST of a directory, in byte order of whole keys, without reading more than a page needs: folder
 * by folder, of each only the names that come next. */
#include "base/mem.h"
#include "object/object_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The walk: where it is now. */
struct listing {
    struct directory *directory;
    struct object_call *call;
    const char *prefix;
    struct str key;  /* of the folder: empty, or what all keys in it begin with */
    struct str path; /* of the folder: empty, or ending in '/' */
};

/* The smallest fragments of one folder, at most `limit` once sorted. */
struct batch {
    char **fragments;
    size_t count, cap;
    size_t limit;
    bool has_dropped; /* there are more behind the last one */
    const char *last; /* of those that were kept then; NULL: all were */
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void batch_sort(struct batch *batch)
{
    if (batch->count > 1) {
        qsort(batch->fragments, batch->count, sizeof batch->fragments[0], compare);
    }
    while (batch->count > batch->limit) {
        free(batch->fragments[--batch->count]);
        batch->has_dropped = true;
        batch->last = batch->fragments[batch->count - 1];
    }
}

static void batch_release(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->fragments[i]);
    }
    free(batch->fragments);
}

static void batch_add(struct batch *batch, const char *fragment)
{
    if (batch->last && strcmp(fragment, batch->last) > 0) {
        return; /* it would be dropped at the next sorting */
    }
    VEC_PUSH(batch->fragments, batch->count, batch->cap) = mem_strdup(fragment);
    if (batch->count == 4 * batch->limit) {
        batch_sort(batch);
    }
}

/* What is left of text behind the folder's key; NULL: it does not begin with that. */
static const char *behind_key(const struct listing *listing, const char *text)
{
    size_t size = listing->key.size;
    return strncmp(text, str_text(&listing->key), size) == 0 ? text + size : NULL;
}

/* Might the page want it, or something in it? prefix and after are those behind the folder's key.
 */
static bool matters(const char *fragment, const char *prefix, const char *after)
{
    size_t size = strlen(fragment);
    if (!directory_fragment_is_folder(fragment)) {
        return strncmp(fragment, prefix, strlen(prefix)) == 0 &&
               (!after || strcmp(fragment, after) > 0);
    }
    size_t prefix_size = strlen(prefix);
    return strncmp(fragment, prefix, size < prefix_size ? size : prefix_size) == 0 &&
           (!after || strncmp(after, fragment, size) <= 0);
}

/* Reads those that matter and come behind `from` (NULL: all). */
static enum err_code batch_read(struct batch *batch, const struct listing *listing,
                                const char *from)
{
    const char *path = listing->path.size ? str_text(&listing->path) : ".";
    int fd = openat(listing->directory->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int why = errno;
        if (fd >= 0) {
            close(fd);
        }
        bool is_gone = why == ENOENT || why == ENOTDIR;
        return is_gone ? ERR_OK : directory_fail(listing->call, why, "opening a folder");
    }
    const char *prefix = behind_key(listing, listing->prefix);
    const char *after = listing->call->after ? behind_key(listing, listing->call->after) : NULL;
    AUTO_STR struct str fragment = {0};
    errno = 0;
    for (struct dirent *entry = NULL; (entry = readdir(dir));) {
        str_clear(&fragment);
        if (directory_add_fragment(&fragment, entry->d_name) &&
            matters(str_text(&fragment), prefix ? prefix : "", after) &&
            (!from || strcmp(str_text(&fragment), from) > 0)) {
            batch_add(batch, str_text(&fragment));
        }
        errno = 0;
    }
    int why = errno;
    closedir(dir);
    batch_sort(batch);
    return why ? directory_fail(listing->call, why, "reading a folder") : ERR_OK;
}

/* False: the page is full. */
static bool add_object(struct listing *listing)
{
    struct stat st;
    const char *key = str_text(&listing->key);
    if (fstatat(listing->directory->root, str_text(&listing->path), &st, AT_SYMLINK_NOFOLLOW) !=
            0 ||
        !S_ISREG(st.st_mode) || !object_key_is_sound(key)) {
        return true; /* deleted meanwhile, or nothing of ours */
    }
    return object_call_add_item(listing->call, key, (uint64_t)st.st_size);
}

static bool walk(struct listing *listing);

/* One object or folder, and back to where we were. False: the end. */
static bool visit(struct listing *listing, const char *fragment)
{
    size_t key_size = listing->key.size;
    size_t path_size = listing->path.size;
    bool is_folder = directory_fragment_is_folder(fragment);
    bool goes_on = true;
    str_add(&listing->key, fragment);
    directory_add_name(&listing->path, fragment);
    if (!is_folder) {
        goes_on = add_object(listing);
    } else if (listing->key.size <= OBJECT_KEY_MAX) { /* else made by someone else: no end to it */
        str_add_char(&listing->path, '/');
        goes_on = walk(listing);
    }
    listing->key.size = key_size;
    listing->key.text[key_size] = '\0';
    listing->path.size = path_size;
    listing->path.text[path_size] = '\0';
    return goes_on;
}

/* The folder we are at. False: the page is full, or the call has failed. */
static bool walk(struct listing *listing) // NOLINT(misc-no-recursion)
{
    AUTO_FREE char *from = NULL;
    bool goes_on = true;
    bool has_more = true;
    while (goes_on && has_more) {
        struct batch batch = {.limit =
                                  1 + (listing->call->max ? listing->call->max : OBJECT_LIST_MAX)};
        goes_on = batch_read(&batch, listing, from) == ERR_OK;
        for (size_t i = 0; i < batch.count && goes_on; i++) {
            goes_on = visit(listing, batch.fragments[i]);
        }
        has_more = batch.has_dropped;
        if (goes_on && has_more) { /* folders may have been empty, objects deleted */
            free(from);
            from = mem_strdup(batch.fragments[batch.count - 1]);
        }
        batch_release(&batch);
    }
    return goes_on;
}

static bool prefix_can_match(const char *prefix)
{
    size_t size = strlen(prefix);
    return size <= OBJECT_KEY_MAX && strspn(prefix, "abcdefghijklmnopqrstuvwxyz"
                                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                    "0123456789._@=+-/") == size;
}

void directory_list(struct directory *directory, struct object_call *call)
{
    struct listing listing = {
        .directory = directory, .call = call, .prefix = call->key ? call->key : ""};
    if (!prefix_can_match(listing.prefix)) {
        return;
    }
    /* Straight to the folder that the prefix names. */
    const char *slash = strrchr(listing.prefix, '/');
    size_t size = slash ? (size_t)(slash + 1 - listing.prefix) : 0;
    if (call->after && strncmp(call->after, listing.prefix, size) > 0) {
        return; /* behind all of it */
    }
    str_add_bytes(&listing.key, listing.prefix, size);
    directory_add_folder_path(&listing.path, listing.prefix, size);
    (void)walk(&listing);
    str_release(&listing.key);
    str_release(&listing.path);
    if (call->code != ERR_OK) {
        call->more = false;
        object_call_release(call);
    }
}
