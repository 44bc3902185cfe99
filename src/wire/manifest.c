#include "wire/manifest.h"

#include "base/mem.h"
#include "wire/bulk.h"

#include <string.h>

#define HEADER "drover-code 1\n"
#define FILE_BYTES_MAX (UINT64_C(1) << 40)

static bool must_escape(unsigned char c)
{
    return c <= 0x20 || c == 0x7f || c == '%';
}

static void add_escaped(struct str *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (must_escape((unsigned char)*c)) {
            str_addf(out, "%%%02X", (unsigned)(unsigned char)*c);
        } else {
            str_add_char(out, *c);
        }
    }
}

void manifest_begin(struct str *out)
{
    str_add(out, HEADER);
}

static void add_chunks(struct str *out, const struct manifest_entry *entry)
{
    if (entry->chunk_count == 0) {
        str_add_char(out, '-');
    }
    for (size_t i = 0; i < entry->chunk_count; i++) {
        char hex[SHA256_HEX_CHARS + 1];
        sha256_hex(entry->chunks[i], hex);
        if (i > 0) {
            str_add_char(out, ',');
        }
        str_add_bytes(out, hex, SHA256_HEX_CHARS);
    }
}

void manifest_add(struct str *out, const struct manifest_entry *entry)
{
    switch (entry->type) {
    case MANIFEST_FILE:
        str_add(out, entry->is_executable ? "755 " : "644 ");
        str_add_u64(out, entry->size);
        str_add_char(out, ' ');
        add_chunks(out, entry);
        break;
    case MANIFEST_LINK:
        str_add(out, "link - ");
        add_escaped(out, entry->target);
        break;
    case MANIFEST_FOLDER:
        str_add(out, "dir - -");
        break;
    }
    str_add_char(out, ' ');
    add_escaped(out, entry->path);
    str_add_char(out, '\n');
}

void manifest_version(const char *text, size_t size, char out[SHA256_HEX_CHARS + 1])
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(text, size, digest);
    sha256_hex(digest, out);
}

void manifest_file_id(const struct manifest_entry *entry, uint8_t out[SHA256_BYTES])
{
    CHECK(entry->chunk_count > 0);
    if (entry->chunk_count == 1) {
        memcpy(out, entry->chunks[0], SHA256_BYTES);
        return;
    }
    sha256_of(entry->chunks, entry->chunk_count * SHA256_BYTES, out);
}

size_t manifest_chunk_size(const struct manifest_entry *entry, size_t index)
{
    CHECK(index < entry->chunk_count);
    uint64_t offset = (uint64_t)index * CODE_CHUNK_BYTES;
    uint64_t left = entry->size - offset;
    return left < CODE_CHUNK_BYTES ? (size_t)left : CODE_CHUNK_BYTES;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool manifest_parse_hash(const char *hex, size_t size, uint8_t out[SHA256_BYTES])
{
    if (size != SHA256_HEX_CHARS) {
        return false;
    }
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        int high = hex_value(hex[2 * i]);
        int low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* --- parsing --------------------------------------------------------------------------------- */

/* A word of a line; it ends at a space or at the line's end. */
struct word {
    const char *text;
    size_t size;
};

static bool word_is(const struct word *word, const char *text)
{
    return word->size == strlen(text) && memcmp(word->text, text, word->size) == 0;
}

static bool split_line(const char *line, size_t size, struct word words[4])
{
    size_t count = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && line[i] != ' ') {
            continue;
        }
        if (count == 4 || i == begin) {
            return false;
        }
        words[count++] = (struct word){.text = line + begin, .size = i - begin};
        begin = i + 1;
    }
    return count == 4;
}

static int upper_hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* NULL: not written the one way it may be. */
static const char *unescape(struct arena *arena, const struct word *word)
{
    char *out = arena_alloc(arena, word->size + 1);
    size_t size = 0;
    for (size_t i = 0; i < word->size; i++) {
        char c = word->text[i];
        if (c == '%') {
            bool is_whole = word->size - i > 2;
            int high = is_whole ? upper_hex_value(word->text[i + 1]) : -1;
            int low = is_whole ? upper_hex_value(word->text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return NULL;
            }
            c = (char)(high << 4 | low);
            if (c == '\0' || !must_escape((unsigned char)c)) {
                return NULL;
            }
            i += 2;
        } else if (must_escape((unsigned char)c)) {
            return NULL;
        }
        out[size++] = c;
    }
    out[size] = '\0';
    return out;
}

static bool parse_size(const struct word *word, uint64_t *out)
{
    if (word->size > 13 || (word->size > 1 && word->text[0] == '0')) {
        return false;
    }
    *out = 0;
    for (size_t i = 0; i < word->size; i++) {
        if (word->text[i] < '0' || word->text[i] > '9') {
            return false;
        }
        *out = *out * 10 + (uint64_t)(word->text[i] - '0');
    }
    return *out <= FILE_BYTES_MAX;
}

static bool parse_chunks(struct manifest *manifest, const struct word *word,
                         struct manifest_entry *entry)
{
    size_t count = (size_t)((entry->size + CODE_CHUNK_BYTES - 1) / CODE_CHUNK_BYTES);
    if (count == 0) {
        return word_is(word, "-");
    }
    if (word->size != count * (SHA256_HEX_CHARS + 1) - 1) {
        return false;
    }
    uint8_t(*chunks)[SHA256_BYTES] = arena_alloc(&manifest->arena, count * SHA256_BYTES);
    for (size_t i = 0; i < count; i++) {
        const char *hex = word->text + i * (SHA256_HEX_CHARS + 1);
        if ((i > 0 && hex[-1] != ',') || !manifest_parse_hash(hex, SHA256_HEX_CHARS, chunks[i])) {
            return false;
        }
    }
    entry->chunks = (const uint8_t(*)[SHA256_BYTES])chunks;
    entry->chunk_count = count;
    return true;
}

static bool parse_entry(struct manifest *manifest, const struct word words[4],
                        struct manifest_entry *entry)
{
    *entry = (struct manifest_entry){0};
    entry->path = unescape(&manifest->arena, &words[3]);
    if (!entry->path || !bulk_path_is_safe(entry->path, strlen(entry->path))) {
        return false;
    }
    if (word_is(&words[0], "644") || word_is(&words[0], "755")) {
        entry->type = MANIFEST_FILE;
        entry->is_executable = words[0].text[0] == '7';
        return parse_size(&words[1], &entry->size) && parse_chunks(manifest, &words[2], entry);
    }
    if (word_is(&words[0], "link")) {
        entry->type = MANIFEST_LINK;
        entry->target = unescape(&manifest->arena, &words[2]);
        return word_is(&words[1], "-") && entry->target &&
               strlen(entry->target) <= BULK_LINK_BYTES_MAX;
    }
    entry->type = MANIFEST_FOLDER;
    return word_is(&words[0], "dir") && word_is(&words[1], "-") && word_is(&words[2], "-");
}

static const struct manifest_entry *find_path(const struct manifest *manifest, const char *path,
                                              size_t size)
{
    size_t low = 0;
    size_t high = manifest->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *name = manifest->entries[middle].path;
        int order = strncmp(name, path, size);
        if (order == 0 && name[size] == '\0') {
            return &manifest->entries[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* Everything above an entry must be a folder. Entries are sorted, so what could stand in the way is
 * found quickly. */
static bool has_room(const struct manifest *manifest, const struct manifest_entry *entry)
{
    for (const char *slash = strchr(entry->path, '/'); slash; slash = strchr(slash + 1, '/')) {
        const struct manifest_entry *above =
            find_path(manifest, entry->path, (size_t)(slash - entry->path));
        if (above && above->type != MANIFEST_FOLDER) {
            return false;
        }
    }
    return true;
}

static enum err_code parse_lines(struct manifest *manifest, const char *text, const char *end,
                                 struct err *err)
{
    size_t line = 1;
    while (text < end) {
        line++;
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        struct word words[4];
        struct manifest_entry entry;
        if (!stop || !split_line(text, (size_t)(stop - text), words) ||
            !parse_entry(manifest, words, &entry)) {
            return err_set(err, ERR_INVALID, "manifest: line %zu is no entry", line);
        }
        if (manifest->count > 0 &&
            strcmp(manifest->entries[manifest->count - 1].path, entry.path) >= 0) {
            return err_set(err, ERR_INVALID, "manifest: line %zu is not in order", line);
        }
        if (manifest->count >= MANIFEST_ENTRIES_MAX) {
            return err_set(err, ERR_INVALID, "manifest: more than %d entries",
                           MANIFEST_ENTRIES_MAX);
        }
        manifest->file_bytes += entry.size;
        manifest->file_count += entry.type == MANIFEST_FILE;
        VEC_PUSH(manifest->entries, manifest->count, manifest->cap) = entry;
        text = stop + 1;
    }
    for (size_t i = 0; i < manifest->count; i++) {
        if (!has_room(manifest, &manifest->entries[i])) {
            return err_set(err, ERR_INVALID, "manifest: something stands above line %zu", i + 2);
        }
    }
    return ERR_OK;
}

enum err_code manifest_parse(const char *text, size_t size, struct manifest **out, struct err *err)
{
    size_t header = strlen(HEADER);
    if (size < header || size > MANIFEST_BYTES_MAX || memcmp(text, HEADER, header) != 0) {
        return err_set(err, ERR_INVALID, "manifest: not one, or too large");
    }
    struct manifest *manifest = mem_alloc(sizeof *manifest);
    enum err_code code = parse_lines(manifest, text + header, text + size, err);
    if (code != ERR_OK) {
        manifest_destroy(manifest);
        return code;
    }
    *out = manifest;
    return ERR_OK;
}

void manifest_destroy(struct manifest *manifest)
{
    if (manifest) {
        arena_release(&manifest->arena);
        free(manifest->entries);
        free(manifest);
    }
}
