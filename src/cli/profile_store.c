#include "cli/profile_store.h"

#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 256 << 20, DEPTH_MAX = 20 };

static const char header[] = "type,batch,workers,bandwidth_mbps,steps_per_s,examples_per_s,mode,"
                             "cpu_cores,gpu_percent\n";

struct hash {
    uint64_t high;
    uint64_t low;
};

static void hash_bytes(struct hash *hash, const void *bytes, size_t size)
{
    hash->high = rng_hash_bytes(hash->high ^ size, bytes, size);
    hash->low = rng_hash_bytes(hash->low + size, bytes, size);
}

static enum err_code hash_file(struct hash *hash, const char *path, struct err *err)
{
    AUTO_STR struct str text = {0};
    enum err_code code = io_read_file(path, FILE_BYTES_MAX, &text, err);
    if (code == ERR_OK) {
        hash_bytes(hash, str_text(&text), text.size);
    }
    return code;
}

static int skip_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Files and folders in the order of their names; hidden ones and what is neither are left out. */
static enum err_code hash_path(struct hash *hash, const char *path, int depth, struct err *err)
{
    struct stat info;
    if (stat(path, &info) != 0 || depth > DEPTH_MAX) {
        return ERR_OK;
    }
    if (S_ISREG(info.st_mode)) {
        return hash_file(hash, path, err);
    }
    struct dirent **names = NULL;
    enum err_code code = ERR_OK;
    int count = S_ISDIR(info.st_mode) ? scandir(path, &names, skip_hidden, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        if (code == ERR_OK) {
            AUTO_STR struct str below = {0};
            str_addf(&below, "%s/%s", path, names[i]->d_name);
            hash_bytes(hash, names[i]->d_name, strlen(names[i]->d_name));
            code = hash_path(hash, str_text(&below), depth + 1, err);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

enum err_code profile_store_hash(char **words, const char *code_path, struct str *out,
                                 struct err *err)
{
    struct hash hash = {.high = 1, .low = 2};
    enum err_code code = ERR_OK;
    for (char **word = words; *word && code == ERR_OK; word++) {
        struct stat info;
        hash_bytes(&hash, *word, strlen(*word));
        if (stat(*word, &info) == 0 && S_ISREG(info.st_mode)) {
            code = hash_file(&hash, *word, err);
        }
    }
    if (code == ERR_OK && code_path) {
        if (access(code_path, R_OK) != 0) {
            return err_set(err, ERR_NOT_FOUND, "%s: cannot be read", code_path);
        }
        code = hash_path(&hash, code_path, 0, err);
    }
    str_addf(out, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
    return code;
}

enum err_code profile_store_path(const char *file, const char *hash, struct str *out,
                                 struct err *err)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    if (file) {
        str_add(out, file);
        return ERR_OK;
    }
    if (data && data[0]) {
        str_addf(out, "%s/drover/profiles", data);
    } else if (home && home[0]) {
        str_addf(out, "%s/.local/share/drover/profiles", home);
    } else {
        return err_set(err, ERR_NOT_FOUND, "neither XDG_DATA_HOME nor HOME is set: give --output");
    }
    enum err_code code = io_make_dirs(str_text(out), err);
    str_addf(out, "/%s.csv", hash);
    return code;
}

/* The table there is; NULL if there is none. */
static enum err_code read_table(const char *path, struct csv **csv, struct err *err)
{
    AUTO_STR struct str text = {0};
    *csv = NULL;
    if (access(path, F_OK) != 0) {
        return ERR_OK;
    }
    enum err_code code = io_read_file(path, FILE_BYTES_MAX, &text, err);
    if (code != ERR_OK || text.size == 0) {
        return code;
    }
    return csv_parse(path, str_text(&text), text.size, csv, err);
}

static const char *text_at(const struct csv *csv, size_t row, const char *column)
{
    int at = csv_find_column(csv, column);
    return at < 0 ? "" : csv_text(csv, row, (size_t)at);
}

static bool is_same(const struct csv *csv, size_t row, const struct profile_record *record)
{
    return strcmp(text_at(csv, row, "type"), record->type) == 0 &&
           strtod(text_at(csv, row, "batch"), NULL) == record->batch &&
           strtod(text_at(csv, row, "workers"), NULL) == record->workers;
}

enum err_code profile_store_has(const char *path, const struct profile_record *record, bool *found,
                                struct err *err)
{
    struct csv *csv = NULL;
    enum err_code code = read_table(path, &csv, err);
    *found = false;
    for (size_t row = 0; csv && row < csv_row_count(csv); row++) {
        *found = *found || is_same(csv, row, record);
    }
    csv_destroy(csv);
    return code;
}

static void add_number(struct str *out, double number, char after)
{
    if (number > 0) {
        str_addf(out, "%.6g", number);
    }
    str_add_char(out, after);
}

static void add_record(struct str *out, const struct profile_record *record)
{
    str_addf(out, "%s,", record->type);
    add_number(out, record->batch, ',');
    str_addf(out, "%u,", record->workers);
    add_number(out, record->bandwidth_mbps, ',');
    add_number(out, record->steps_per_s, ',');
    add_number(out, record->examples_per_s, ',');
    str_addf(out, "%s,", record->mode);
    add_number(out, record->cpu_cores, ',');
    add_number(out, record->gpu_percent, '\n');
}

enum err_code profile_store_put(const char *path, const struct profile_record *record,
                                struct err *err)
{
    static const char *const columns[] = {"type",           "batch",       "workers",
                                          "bandwidth_mbps", "steps_per_s", "examples_per_s",
                                          "mode",           "cpu_cores",   "gpu_percent"};
    struct csv *csv = NULL;
    enum err_code code = read_table(path, &csv, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str out = {0};
    str_add(&out, header);
    for (size_t row = 0; csv && row < csv_row_count(csv); row++) {
        for (size_t i = 0; !is_same(csv, row, record) && i < 9; i++) {
            str_addf(&out, "%s%c", text_at(csv, row, columns[i]), i < 8 ? ',' : '\n');
        }
    }
    add_record(&out, record);
    csv_destroy(csv);
    return io_replace_file(path, str_text(&out), out.size, 0644, err);
}
