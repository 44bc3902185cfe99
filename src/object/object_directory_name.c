/* Keys as files' names: see object_directory.h. */
#include "object/object_directory.h"

#include <string.h>

#define SOUND "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@=+-"

static bool is_dots(const char *rest)
{
    return strcmp(rest, "") == 0 || strcmp(rest, ".") == 0 || strcmp(rest, "..") == 0;
}

/* Whole pieces of a part of *size bytes; what is left of it is returned. */
static const char *add_pieces(struct str *out, const char *part, size_t *size)
{
    while (*size >= DIRECTORY_PIECE) {
        str_add_bytes(out, part, DIRECTORY_PIECE);
        str_add(out, "^/");
        part += DIRECTORY_PIECE;
        *size -= DIRECTORY_PIECE;
    }
    return part;
}

void directory_add_folder_path(struct str *out, const char *key, size_t size)
{
    const char *end = key + size;
    while (key < end) {
        const char *slash = memchr(key, '/', (size_t)(end - key));
        CHECK(slash);
        size_t part_size = (size_t)(slash - key);
        const char *rest = add_pieces(out, key, &part_size);
        str_add_bytes(out, rest, part_size);
        str_add(out, ",/");
        key = slash + 1;
    }
}

void directory_add_path(struct str *out, const char *key)
{
    const char *slash = strrchr(key, '/');
    const char *last = slash ? slash + 1 : key;
    directory_add_folder_path(out, key, (size_t)(last - key));
    size_t size = strlen(last);
    directory_add_name(out, add_pieces(out, last, &size));
}

bool directory_fragment_is_folder(const char *fragment)
{
    size_t size = strlen(fragment);
    return size == DIRECTORY_PIECE || (size > 0 && fragment[size - 1] == '/');
}

void directory_add_name(struct str *out, const char *fragment)
{
    size_t size = strlen(fragment);
    if (size > 0 && fragment[size - 1] == '/') {
        str_add_bytes(out, fragment, size - 1);
        str_add_char(out, ',');
    } else if (size == DIRECTORY_PIECE) {
        str_add(out, fragment);
        str_add_char(out, '^');
    } else {
        str_add(out, is_dots(fragment) ? "^" : "");
        str_add(out, fragment);
    }
}

bool directory_add_fragment(struct str *out, const char *name)
{
    size_t sound = strspn(name, SOUND);
    const char *tail = name + sound;
    if (strcmp(tail, ",") == 0 && sound < DIRECTORY_PIECE) {
        str_add_bytes(out, name, sound);
        str_add_char(out, '/');
        return true;
    }
    if (strcmp(tail, "^") == 0 && sound == DIRECTORY_PIECE) {
        str_add_bytes(out, name, sound);
        return true;
    }
    if (name[0] == '^' && is_dots(name + 1)) {
        str_add(out, name + 1);
        return true;
    }
    if (*tail != '\0' || sound >= DIRECTORY_PIECE || is_dots(name)) {
        return false;
    }
    str_add(out, name);
    return true;
}
