/* Records that whoever serves the volume to others keeps with it. */
#include "base/mem.h"
#include "volume/engine_internal.h"

#include <stdlib.h>
#include <string.h>

static void service_key(struct codec_key *key, const uint8_t id[ENGINE_SERVICE_ID_BYTES])
{
    key->bytes[0] = 'S';
    memcpy(key->bytes + 1, id, ENGINE_SERVICE_ID_BYTES);
    key->size = 1 + ENGINE_SERVICE_ID_BYTES;
}

void engine_service_put(struct engine *engine, const uint8_t id[ENGINE_SERVICE_ID_BYTES],
                        const void *value, size_t size)
{
    struct codec_key key;
    service_key(&key, id);
    CHECK(size <= ENGINE_SERVICE_BYTES_MAX);
    change_begin(engine);
    if (size == 0) {
        change_delete(engine, slice_of_key(&key));
    } else {
        change_put(engine, &key, value, size);
    }
    change_apply(engine);
}

struct service_list {
    struct engine_service *items;
    size_t count, cap;
    bool is_bad;
};

static bool take_service(void *context, struct map_slice key, struct map_slice value)
{
    struct service_list *list = context;
    if (key.size != 1 + ENGINE_SERVICE_ID_BYTES || value.size > ENGINE_SERVICE_BYTES_MAX) {
        list->is_bad = true;
        return false;
    }
    struct engine_service *item = &VEC_PUSH(list->items, list->count, list->cap);
    *item = (struct engine_service){.value = mem_alloc(value.size), .size = value.size};
    memcpy(item->id, key.bytes + 1, sizeof item->id);
    memcpy(item->value, value.bytes, value.size);
    return true;
}

enum err_code engine_services(struct engine *engine, struct engine_service **out, size_t *count,
                              struct err *err)
{
    struct service_list list = {0};
    struct map_range range = {.prefix = {(const uint8_t *)"S", 1}};
    enum err_code code = map_scan(engine->map, &range, take_service, &list, err);
    if (list.is_bad) {
        code = err_set(err, ERR_CORRUPT, "a record of a mount is damaged");
    }
    if (code != ERR_OK) {
        engine_services_free(list.items, list.count);
        return code;
    }
    *out = list.items;
    *count = list.count;
    return ERR_OK;
}

void engine_services_free(struct engine_service *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].value);
    }
    free(items);
}

void engine_skip_inodes(struct engine *engine, uint64_t count)
{
    engine->counters.next_inode += count;
}
