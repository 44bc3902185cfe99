#include "mount/image_tree.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    STRETCH = 480, /* entries of a folder at a time: as many as the engine reads without waste */
    LINKS_MIN = 64,
    NODES_MAX = IMAGE_FILES_MAX + (1 << 16), /* a damaged volume may count wrongly, or in circles */
};

static const char our_names[] = "user.drover.";

struct listed {
    char name[ENGINE_NAME_MAX + 1];
    struct engine_attr attr;
    bool has_xattrs;
};

/* Files of several names, by inode: a number each. Open addressing; inode 0: free. */
struct links {
    struct link {
        uint64_t inode, number;
    } * items;
    size_t count, cap; /* cap is a power of two, or 0 */
};

struct builder {
    const struct image_tree *tree;
    struct listed *stretch;
    size_t stretch_count;
    struct todo {
        uint64_t inode;
        struct image_folder folder;
    } * todo; /* folders whose entries are to be added; the last is the next */
    size_t todo_count, todo_cap;
    struct links links;
    uint64_t nodes;
};

/* --- files of several names --------------------------------------------------------------------
 */

static struct link *links_at(const struct links *links, uint64_t inode)
{
    size_t at = (size_t)(inode * 0x9e3779b97f4a7c15U >> 32);
    while (links->items[at & (links->cap - 1)].inode != 0 &&
           links->items[at & (links->cap - 1)].inode != inode) {
        at++;
    }
    return &links->items[at & (links->cap - 1)];
}

static void links_grow(struct links *links)
{
    struct links old = *links;
    links->cap = old.cap ? old.cap * 2 : LINKS_MIN;
    links->items = mem_array(links->cap, sizeof *links->items);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.items[i].inode != 0) {
            *links_at(links, old.items[i].inode) = old.items[i];
        }
    }
    free(old.items);
}

/* Its slot: number 0, if it is new. */
static struct link *links_find(struct links *links, uint64_t inode)
{
    if (links->count * 2 >= links->cap) {
        links_grow(links);
    }
    struct link *link = links_at(links, inode);
    links->count += link->inode == 0;
    link->inode = inode;
    return link;
}

/* --- what the engine has ------------------------------------------------------------------------
 */

/* Whether to try once more; else *code says how it ended. */
static bool is_again(const struct builder *builder, enum err_code *code, struct err *err)
{
    if (*code != ERR_AGAIN) {
        return false;
    }
    *code = builder->tree->wait(builder->tree->context, err);
    return *code == ERR_OK;
}

static bool keep_entry(void *context, const struct engine_entry *entry)
{
    struct builder *builder = context;
    struct listed *listed = &builder->stretch[builder->stretch_count++];
    memcpy(listed->name, entry->name, strlen(entry->name) + 1);
    listed->attr = *entry->attr;
    listed->has_xattrs = entry->has_xattrs;
    return builder->stretch_count < STRETCH;
}

/* The entries behind `after`, STRETCH of them at most. */
static enum err_code list_stretch(struct builder *builder, uint64_t folder, const char *after,
                                  struct err *err)
{
    enum err_code code = ERR_OK;
    int posix = 0;
    builder->stretch_count = 0;
    do {
        size_t count = builder->stretch_count;
        struct engine_listing listing = {.folder = folder,
                                         .after =
                                             count > 0 ? builder->stretch[count - 1].name : after,
                                         .plus = true};
        code = engine_list(builder->tree->engine, &listing, keep_entry, builder, &posix, err);
    } while (builder->stretch_count < STRETCH && is_again(builder, &code, err));
    return builder->stretch_count == STRETCH ? ERR_OK : code;
}

/* The values of an inode's extended attributes, and what to call them. */
struct xattrs {
    struct str names, values;
    struct image_xattr *items;
    size_t count, cap;
};

static void xattrs_release(struct xattrs *xattrs)
{
    str_release(&xattrs->names);
    str_release(&xattrs->values);
    free(xattrs->items);
}

static enum err_code read_xattr(const struct builder *builder, uint64_t inode, const char *name,
                                struct str *out, struct err *err)
{
    enum err_code code = ERR_OK;
    int posix = 0;
    do {
        code = engine_xattr_get(builder->tree->engine, inode, name, out, &posix, err);
    } while (is_again(builder, &code, err));
    return code;
}

static enum err_code read_xattrs(const struct builder *builder, uint64_t inode, struct xattrs *out,
                                 struct err *err)
{
    enum err_code code = ERR_OK;
    int posix = 0;
    do {
        code = engine_xattr_list(builder->tree->engine, inode, &out->names, &posix, err);
    } while (is_again(builder, &code, err));
    const char *name = str_text(&out->names);
    for (; code == ERR_OK && name < str_text(&out->names) + out->names.size;
         name += strlen(name) + 1) {
        size_t before = out->values.size;
        if (inode == ENGINE_ROOT && strncmp(name, our_names, strlen(our_names)) == 0) {
            continue; /* a copy of another mount's, which would be taken for ours */
        }
        code = read_xattr(builder, inode, name, &out->values, err);
        VEC_PUSH(out->items, out->count, out->cap) =
            (struct image_xattr){.name = name, .size = out->values.size - before};
    }
    const char *value = str_text(&out->values); /* it may have moved */
    for (size_t i = 0; i < out->count; i++) {
        out->items[i].value = value;
        value += out->items[i].size;
    }
    return code;
}

/* --- building -----------------------------------------------------------------------------------
 */

static enum err_code add_node(struct builder *builder, const struct listed *listed,
                              uint64_t *number, struct err *err)
{
    const struct engine_attr *attr = &listed->attr;
    const struct image_tree *tree = builder->tree;
    AUTO_STR struct str target = {0};
    __attribute__((cleanup(xattrs_release))) struct xattrs xattrs = {0};
    enum err_code code = ERR_OK;
    int posix = 0;
    if (++builder->nodes > NODES_MAX) {
        return err_set(err, ERR_RANGE, "too many files");
    }
    if (S_ISLNK(attr->mode)) {
        do {
            code = engine_readlink(tree->engine, attr->inode, &target, &posix, err);
        } while (is_again(builder, &code, err));
    }
    if (code == ERR_OK && listed->has_xattrs) {
        code = read_xattrs(builder, attr->inode, &xattrs, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (attr->inode == ENGINE_ROOT && tree->root_xattr) {
        VEC_PUSH(xattrs.items, xattrs.count, xattrs.cap) = *tree->root_xattr;
    }
    struct image_node node = {.attr = attr,
                              .target = str_text(&target),
                              .xattrs = xattrs.items,
                              .xattr_count = xattrs.count};
    return image_add(tree->image, &node, number, err);
}

static enum err_code add_entry(struct builder *builder, const struct image_folder *folder,
                               const struct listed *listed, struct err *err)
{
    const struct engine_attr *attr = &listed->attr;
    struct link *link = NULL;
    uint64_t number = 0;
    enum err_code code = ERR_OK;
    if (!S_ISDIR(attr->mode) && attr->nlink > 1) {
        link = links_find(&builder->links, attr->inode);
        number = link->number;
    }
    if (number == 0) {
        code = add_node(builder, listed, &number, err);
    }
    if (link) {
        link->number = number;
    }
    if (S_ISDIR(attr->mode)) {
        VEC_PUSH(builder->todo, builder->todo_count, builder->todo_cap) =
            (struct todo){attr->inode, {number, folder->number}};
    }
    return code == ERR_OK
               ? image_folder_add(builder->tree->image, listed->name, number, attr->mode, err)
               : code;
}

static enum err_code add_folder(struct builder *builder, const struct todo *todo, struct err *err)
{
    char after[ENGINE_NAME_MAX + 1] = "";
    enum err_code code = ERR_OK;
    image_folder_begin(builder->tree->image, &todo->folder);
    do {
        code = list_stretch(builder, todo->inode, after[0] ? after : NULL, err);
        for (size_t i = 0; i < builder->stretch_count && code == ERR_OK; i++) {
            code = add_entry(builder, &todo->folder, &builder->stretch[i], err);
        }
        if (builder->stretch_count > 0) {
            memcpy(after, builder->stretch[builder->stretch_count - 1].name, sizeof after);
        }
    } while (code == ERR_OK && builder->stretch_count == STRETCH);
    return code == ERR_OK ? image_folder_end(builder->tree->image, err) : code;
}

static enum err_code add_root(struct builder *builder, struct err *err)
{
    struct listed root = {.has_xattrs = true};
    uint64_t number = 0;
    enum err_code code = ERR_OK;
    int posix = 0;
    do {
        code = engine_getattr(builder->tree->engine, ENGINE_ROOT, &root.attr, &posix, err);
    } while (is_again(builder, &code, err));
    if (code == ERR_OK) {
        code = add_node(builder, &root, &number, err);
    }
    VEC_PUSH(builder->todo, builder->todo_count, builder->todo_cap) =
        (struct todo){ENGINE_ROOT, {number, number}};
    return code;
}

enum err_code image_tree_build(const struct image_tree *tree, struct err *err)
{
    struct builder builder = {.tree = tree};
    builder.stretch = mem_array(STRETCH, sizeof *builder.stretch);
    enum err_code code = add_root(&builder, err);
    while (code == ERR_OK && builder.todo_count > 0) {
        struct todo todo = builder.todo[--builder.todo_count];
        code = add_folder(&builder, &todo, err);
    }
    if (code == ERR_OK) {
        code = image_finish(tree->image, tree->uuid, err);
    }
    free(builder.stretch);
    free(builder.todo);
    free(builder.links.items);
    return code;
}
