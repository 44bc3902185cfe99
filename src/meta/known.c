#include "meta/known.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { BUCKETS = 1 << 16, FLOORS = 1 << 12, KEY_HEAD = 16, KEY_MAX = KEY_HEAD + META_NAME_BYTES };

struct item {          /* a name in a folder, or an answer */
    struct item *next; /* in its bucket */
    LIST_ENTRY(item) link;
    struct record *record;
    uint64_t hash;
    uint64_t child; /* of a name; 0: absent */
    size_t key_size, size;
    uint8_t bytes[]; /* the key, then the answer */
};

LIST_HEAD(item_list, item);

struct record { /* of an inode */
    struct record *next;
    TAILQ_ENTRY(record) link; /* the one used longest ago first */
    uint64_t inode;
    bool has_attr;
    struct engine_attr attr;
    struct item_list items;
};

TAILQ_HEAD(record_list, record);

struct own { /* a change of ours */
    uint64_t inode, tide;
};

struct known {
    size_t bytes, bytes_max;
    uint64_t begun;          /* tide */
    uint64_t floors[FLOORS]; /* tides, by inode: older answers are not taken in */
    struct own own[FLOORS];  /* the latest, by inode */
    struct record_list records;
    struct record *by_inode[BUCKETS];
    struct item *by_key[BUCKETS];
};

struct key {
    uint64_t inode;
    uint64_t hash;
    size_t size;
    uint8_t bytes[KEY_MAX];
};

static size_t mix(uint64_t inode, unsigned shift)
{
    return (size_t)((inode * 0x9E3779B97F4A7C15U) >> shift);
}

struct known *known_create(size_t bytes_max)
{
    struct known *known = mem_alloc(sizeof *known);
    known->bytes_max = bytes_max;
    TAILQ_INIT(&known->records);
    return known;
}

/* Letting go. ---------------------------------------------------------------------------------- */

static size_t item_bytes(const struct item *item)
{
    return sizeof *item + item->key_size + item->size;
}

static void item_free(struct known *known, struct item *item)
{
    struct item **at = &known->by_key[item->hash % BUCKETS];
    while (*at != item) {
        at = &(*at)->next;
    }
    *at = item->next;
    LIST_REMOVE(item, link);
    known->bytes -= item_bytes(item);
    free(item);
}

static bool is_name(const struct item *item)
{
    return item->bytes[0] == DROVER__META_VERB__META_VERB_LOOKUP;
}

static void free_items(struct known *known, struct record *record, bool names_too)
{
    struct item *next;
    for (struct item *item = LIST_FIRST(&record->items); item != NULL; item = next) {
        next = LIST_NEXT(item, link);
        if (names_too || !is_name(item)) {
            item_free(known, item);
        }
    }
}

static struct record **record_at(struct known *known, uint64_t inode)
{
    struct record **at = &known->by_inode[mix(inode, 48)];
    while (*at != NULL && (*at)->inode != inode) {
        at = &(*at)->next;
    }
    return at;
}

static void record_free(struct known *known, struct record **at)
{
    struct record *record = *at;
    free_items(known, record, true);
    *at = record->next;
    TAILQ_REMOVE(&known->records, record, link);
    known->bytes -= sizeof *record;
    free(record);
}

static void forget_all(struct known *known)
{
    while (!TAILQ_EMPTY(&known->records)) {
        record_free(known, record_at(known, TAILQ_FIRST(&known->records)->inode));
    }
}

void known_destroy(struct known *known)
{
    if (known != NULL) {
        forget_all(known);
        free(known);
    }
}

void known_begin(struct known *known, uint64_t tide)
{
    forget_all(known);
    known->begun = tide;
}

static void raise_floor(struct known *known, uint64_t inode, uint64_t tide)
{
    uint64_t *floor = &known->floors[mix(inode, 52)];
    *floor = tide > *floor ? tide : *floor;
}

void known_forget(struct known *known, uint64_t inode, uint64_t tide)
{
    struct record **at = record_at(known, inode);
    raise_floor(known, inode, tide);
    if (*at != NULL) {
        record_free(known, at);
    }
}

void known_change(struct known *known, uint64_t inode, uint64_t tide)
{
    struct record *record = *record_at(known, inode);
    struct own *own = &known->own[mix(inode, 52)];
    raise_floor(known, inode, tide);
    if (tide > own->tide) {
        *own = (struct own){inode, tide};
    }
    if (record != NULL) {
        record->has_attr = false;
        free_items(known, record, false);
    }
}

bool known_is_overtaken(const struct known *known, uint64_t inode, uint64_t tide)
{
    const struct own *own = &known->own[mix(inode, 52)];
    return own->inode == inode && own->tide > tide;
}

/* Taking in. ----------------------------------------------------------------------------------- */

static bool is_news(const struct known *known, uint64_t inode, uint64_t tide)
{
    return tide >= known->begun && known->begun != UINT64_MAX &&
           tide >= known->floors[mix(inode, 52)];
}

static void touch(struct known *known, struct record *record)
{
    TAILQ_REMOVE(&known->records, record, link);
    TAILQ_INSERT_TAIL(&known->records, record, link);
}

static struct record *record_take(struct known *known, uint64_t inode)
{
    struct record **at = record_at(known, inode);
    if (*at != NULL) {
        touch(known, *at);
        return *at;
    }
    struct record *record = mem_alloc(sizeof *record);
    record->inode = inode;
    record->next = *at;
    *at = record;
    LIST_INIT(&record->items);
    TAILQ_INSERT_TAIL(&known->records, record, link);
    known->bytes += sizeof *record;
    return record;
}

static void make_room(struct known *known)
{
    while (known->bytes > known->bytes_max) {
        record_free(known, record_at(known, TAILQ_FIRST(&known->records)->inode));
    }
}

void known_set_attr(struct known *known, uint64_t tide, const struct engine_attr *attr)
{
    if (!is_news(known, attr->inode, tide)) {
        return;
    }
    struct record *record = record_take(known, attr->inode);
    record->attr = *attr;
    record->has_attr = true;
    make_room(known);
}

/* What tells one question from another. */
static void key_of(struct key *key, const Drover__MetaOp *op)
{
    bool is_listing = op->verb == DROVER__META_VERB__META_VERB_LIST;
    uint32_t flags = is_listing ? op->flags : 0;
    uint64_t size = is_listing ? op->size : 0;
    key->inode = op->inode;
    memset(key->bytes, 0, KEY_HEAD);
    key->bytes[0] = (uint8_t)op->verb;
    memcpy(key->bytes + 4, &flags, sizeof flags);
    memcpy(key->bytes + 8, &size, sizeof size);
    if (op->name.len > 0) {
        memcpy(key->bytes + KEY_HEAD, op->name.data, op->name.len);
    }
    key->size = KEY_HEAD + op->name.len;
    key->hash = 0xCBF29CE484222325U ^ (op->inode * 0x9E3779B97F4A7C15U);
    for (size_t i = 0; i < key->size; i++) {
        key->hash = (key->hash ^ key->bytes[i]) * 0x100000001B3U;
    }
    key->hash ^= key->hash >> 32;
}

static bool key_fits(const ProtobufCBinaryData *name)
{
    return name->len <= KEY_MAX - KEY_HEAD;
}

static void key_of_name(struct key *key, uint64_t folder, const ProtobufCBinaryData *name)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = DROVER__META_VERB__META_VERB_LOOKUP;
    op.inode = folder;
    op.name = *name;
    key_of(key, &op);
}

static struct item *item_find(const struct known *known, const struct key *key)
{
    struct item *item = known->by_key[key->hash % BUCKETS];
    while (item != NULL &&
           (item->hash != key->hash || item->record->inode != key->inode ||
            item->key_size != key->size || memcmp(item->bytes, key->bytes, key->size) != 0)) {
        item = item->next;
    }
    return item;
}

static struct item *item_put(struct known *known, const struct key *key, const void *bytes,
                             size_t size)
{
    struct item *old = item_find(known, key);
    if (old != NULL) {
        item_free(known, old);
    }
    struct item *item = mem_alloc(sizeof *item + key->size + size);
    item->record = record_take(known, key->inode);
    item->hash = key->hash;
    item->key_size = key->size;
    item->size = size;
    memcpy(item->bytes, key->bytes, key->size);
    if (size > 0) {
        memcpy(item->bytes + key->size, bytes, size);
    }
    item->next = known->by_key[key->hash % BUCKETS];
    known->by_key[key->hash % BUCKETS] = item;
    LIST_INSERT_HEAD(&item->record->items, item, link);
    known->bytes += item_bytes(item);
    return item;
}

void known_set_name(struct known *known, uint64_t tide, uint64_t folder,
                    const ProtobufCBinaryData *name, uint64_t inode)
{
    struct key key;
    if (is_news(known, folder, tide) && key_fits(name)) {
        key_of_name(&key, folder, name);
        item_put(known, &key, NULL, 0)->child = inode;
        make_room(known);
    }
}

void known_drop_name(struct known *known, uint64_t folder, const ProtobufCBinaryData *name)
{
    struct key key;
    if (key_fits(name)) {
        key_of_name(&key, folder, name);
        struct item *item = item_find(known, &key);
        if (item != NULL) {
            item_free(known, item);
        }
    }
}

void known_set_answer(struct known *known, uint64_t tide, const Drover__MetaOp *op,
                      const void *bytes, size_t size)
{
    struct key key;
    if (is_news(known, op->inode, tide) && key_fits(&op->name) && size < known->bytes_max / 4) {
        key_of(&key, op);
        (void)item_put(known, &key, bytes, size);
        make_room(known);
    }
}

/* Knowing. ------------------------------------------------------------------------------------- */

const struct engine_attr *known_attr(struct known *known, uint64_t inode)
{
    struct record *record = *record_at(known, inode);
    if (record == NULL || !record->has_attr) {
        return NULL;
    }
    touch(known, record);
    return &record->attr;
}

static struct item *item_use(struct known *known, const Drover__MetaOp *op)
{
    struct key key;
    struct item *item = NULL;
    if (key_fits(&op->name)) {
        key_of(&key, op);
        item = item_find(known, &key);
    }
    if (item != NULL) {
        touch(known, item->record);
    }
    return item;
}

bool known_name(struct known *known, uint64_t folder, const ProtobufCBinaryData *name,
                uint64_t *inode)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = DROVER__META_VERB__META_VERB_LOOKUP;
    op.inode = folder;
    op.name = *name;
    const struct item *item = item_use(known, &op);
    if (item != NULL) {
        *inode = item->child;
    }
    return item != NULL;
}

bool known_answer(struct known *known, const Drover__MetaOp *op, const void **bytes, size_t *size)
{
    const struct item *item = item_use(known, op);
    if (item != NULL) {
        *bytes = item->bytes + item->key_size;
        *size = item->size;
    }
    return item != NULL;
}

size_t known_bytes(const struct known *known)
{
    return known->bytes;
}
