/* engine_model.h - for tests: a POSIX file system as plain as can be, to compare the engine with.
 *
 * Files are byte arrays, names are one list, everything is found by looking at everything. Each
 * operation answers 0 or an errno and does what the engine's of the same name should have done.
 */
#ifndef VOLUME_ENGINE_MODEL_H
#define VOLUME_ENGINE_MODEL_H

#include "volume/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_FILES_MAX = 64,
    MODEL_NAMES_MAX = 128,
    MODEL_BYTES_MAX = 16384, /* of a file */
    MODEL_XATTRS_MAX = 4,
};

struct model_xattr {
    char name[16];
    uint8_t value[64];
    size_t size;
};

struct model_file {
    struct engine_attr attr; /* inode 0: unused */
    uint8_t bytes[MODEL_BYTES_MAX];
    bool is_data[MODEL_BYTES_MAX]; /* else a hole */
    char target[64];
    struct model_xattr xattrs[MODEL_XATTRS_MAX];
    size_t xattr_count;
    bool is_open;
    bool is_held;
    bool is_committed; /* or has been in a commit once */
};

struct model_name {
    uint64_t folder; /* 0: unused */
    char name[300];
    uint64_t inode;
};

struct model {
    struct model_file files[MODEL_FILES_MAX];
    struct model_name names[MODEL_NAMES_MAX];
    uint64_t next_inode;
};

struct model_write { /* bytes to write; NULL: a hole */
    uint64_t offset;
    size_t size;
    const uint8_t *bytes;
};

void model_format(struct model *model, const struct engine_caller *caller, uint32_t mode);
bool model_is_full(const struct model *model);                      /* no room to make anything */
struct model_file *model_file(struct model *model, uint64_t inode); /* NULL: none */
struct model_name *model_name(struct model *model, uint64_t folder, const char *name);
/* Inode of the only name of a held file, as the commit sees it: is it left out? */
bool model_is_hidden(struct model *model, uint64_t inode);

int model_make(struct model *model, const struct engine_caller *caller,
               const struct engine_make *make);
int model_link(struct model *model, const struct engine_caller *caller,
               const struct engine_make *link);
int model_remove(struct model *model, const struct engine_caller *caller,
                 const struct engine_remove *remove);
int model_rename(struct model *model, const struct engine_caller *caller,
                 const struct engine_rename *rename);
int model_setattr(struct model *model, const struct engine_caller *caller,
                  const struct engine_set *set);
int model_write(struct model *model, const struct engine_caller *caller,
                const struct engine_write *write, const struct model_write *parts);
int model_xattr_set(struct model *model, const struct engine_caller *caller,
                    const struct engine_xattr *xattr);
void model_close(struct model *model, uint64_t inode); /* the last handle */

#endif
