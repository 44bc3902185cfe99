#include "master/server_state.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- by key: every message asks, so there is an index, open addressing, at most half full --------
 */

static size_t place_of(const struct herd *herd, const char *key)
{
    uint32_t hash = 2166136261u;
    for (const char *at = key; *at; at++) {
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    }
    size_t place = hash & (herd->index_size - 1);
    while (herd->index[place] != 0 && strcmp(herd->nodes[herd->index[place] - 1]->key, key) != 0) {
        place = (place + 1) & (herd->index_size - 1);
    }
    return place;
}

static void index_node(struct herd *herd, const struct herd_node *node)
{
    if (2 * herd->count >= herd->index_size) {
        free(herd->index);
        herd->index_size = herd->index_size ? 2 * herd->index_size : 64;
        herd->index = mem_array(herd->index_size, sizeof *herd->index);
        for (size_t i = 0; i < herd->count; i++) {
            herd->index[place_of(herd, herd->nodes[i]->key)] = herd->nodes[i]->number + 1;
        }
    }
    herd->index[place_of(herd, node->key)] = node->number + 1;
}

struct herd_node *herd_find_key(const struct herd *herd, const char *key)
{
    if (herd->index_size == 0) {
        return NULL;
    }
    uint32_t found = herd->index[place_of(herd, key)];
    return found ? herd->nodes[found - 1] : NULL;
}

struct herd_node *herd_find_name(const struct herd *herd, const char *name)
{
    for (size_t i = herd->count; i-- > 0;) { /* a name may have been used before */
        if (strcmp(herd->nodes[i]->name, name) == 0) {
            return herd->nodes[i];
        }
    }
    return NULL;
}

struct herd_node *herd_at(const struct herd *herd, uint32_t number)
{
    return number < herd->count ? herd->nodes[number] : NULL;
}

struct herd_node *herd_add(struct herd *herd, const char *name, const char *key)
{
    struct herd_node *node = mem_alloc(sizeof *node);
    node->number = (uint32_t)herd->count;
    node->name = mem_strdup(name);
    snprintf(node->key, sizeof node->key, "%s", key);
    node->boot = mem_strdup("");
    node->version = mem_strdup("");
    node->state = key[0] ? HERD_AWAY : HERD_LEFT; /* one in this process says so when it begins */
    VEC_PUSH(herd->nodes, herd->count, herd->cap) = node;
    index_node(herd, node);
    return node;
}

void herd_release(struct herd *herd)
{
    for (size_t i = 0; i < herd->count; i++) {
        struct herd_node *node = herd->nodes[i];
        for (size_t l = 0; l < node->label_count; l++) {
            free(node->labels[l]);
        }
        free(node->name);
        for (size_t b = 0; b < HERD_FORMER_BOOTS; b++) {
            free(node->former_boots[b]);
        }
        free(node->boot);
        free(node->version);
        free(node);
    }
    free(herd->nodes);
    free(herd->index);
    *herd = (struct herd){0};
}

/* --- the document: one line a node, "NUMBER KEY STATE NAME" ------------------------------------
 *
 * STATE is "known", "revoked", or "soft=BOOT" or "hard=BOOT": drained, as long as the agent is
 * that.
 */

static void add_state(const struct herd_node *node, struct str *document)
{
    if (node->state == HERD_REVOKED) {
        str_add(document, "revoked");
    } else if (node->drain == CORE_DRAIN_OFF) {
        str_add(document, "known");
    } else {
        str_addf(document, "%s=%s", node->drain == CORE_DRAIN_SOFT ? "soft" : "hard", node->boot);
    }
}

static void take_state(struct herd_node *node, const char *state)
{
    bool is_hard = strncmp(state, "hard=", 5) == 0;
    if (strcmp(state, "revoked") == 0) {
        node->state = HERD_REVOKED;
    } else if (is_hard || strncmp(state, "soft=", 5) == 0) {
        node->drain = is_hard ? CORE_DRAIN_HARD : CORE_DRAIN_SOFT;
        free(node->boot);
        node->boot = mem_strdup(state + 5);
    }
}

void herd_record(const struct herd *herd, struct str *document)
{
    for (size_t i = 0; i < herd->count; i++) {
        const struct herd_node *node = herd->nodes[i];
        str_addf(document, "%" PRIu32 " %s ", node->number, node->key[0] ? node->key : "-");
        add_state(node, document);
        str_addf(document, " %s\n", node->name);
    }
}

enum err_code herd_restore(struct herd *herd, const struct str *document, struct err *err)
{
    AUTO_FREE char *copy = mem_strdup(str_text(document));
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        uint32_t number = 0;
        char key[HERD_KEY_CHARS + 1];
        char state[80];
        int at = 0;
        if (sscanf(line, "%" SCNu32 " %40s %79s%n", &number, key, state, &at) != 3 || at == 0 ||
            line[at] != ' ' || number != herd->count) {
            return err_set(err, ERR_CORRUPT, "the list of nodes is damaged at '%.60s'", line);
        }
        /* all the rest is its name, blanks too */
        struct herd_node *node = herd_add(herd, line + at + 1, strcmp(key, "-") == 0 ? "" : key);
        take_state(node, state);
    }
    return ERR_OK;
}
