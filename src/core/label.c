/* label.c - labels as numbers. Only what some experiment asks for gets one, so that a node that
 * thinks up new labels every time costs nothing but itself. */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Where the text stands among the labels, or would have to. */
static size_t place_of(const struct core *core, const char *text, bool *found)
{
    size_t low = 0;
    size_t high = core->label_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(core->labels[middle].text, text) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < core->label_count && strcmp(core->labels[low].text, text) == 0;
    return low;
}

/* Puts an id into an ascending array that has room for it; once. */
static void insert_id(uint32_t *ids, size_t *count, uint32_t id)
{
    size_t at = *count;
    while (at > 0 && ids[at - 1] > id) {
        at--;
    }
    if (at > 0 && ids[at - 1] == id) {
        return;
    }
    memmove(ids + at + 1, ids + at, (*count - at) * sizeof *ids);
    ids[at] = id;
    (*count)++;
}

static void node_learn(struct node *node, uint32_t id)
{
    if (node->label_count == node->label_cap) {
        node->label_ids =
            mem_grow(node->label_ids, node->label_count, &node->label_cap, sizeof *node->label_ids);
    }
    insert_id(node->label_ids, &node->label_count, id);
}

static bool node_gave(const struct node *node, const char *text)
{
    for (size_t i = 0; i < node->labels_given; i++) {
        if (strcmp(node->labels[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t intern(struct core *core, const char *text)
{
    bool found = false;
    size_t at = place_of(core, text, &found);
    if (found) {
        return core->labels[at].id;
    }
    struct label made = {.text = mem_strdup(text), .id = (uint32_t)core->label_count};
    VEC_PUSH(core->labels, core->label_count, core->label_cap) = made;
    memmove(core->labels + at + 1, core->labels + at,
            (core->label_count - 1 - at) * sizeof *core->labels);
    core->labels[at] = made;
    for (size_t n = 0; n < core->node_count; n++) {
        if (node_gave(&core->nodes[n], text)) {
            node_learn(&core->nodes[n], made.id);
        }
    }
    return made.id;
}

void label_intern_all(struct core *core, struct experiment_state_data *experiment,
                      const struct core_labels *labels)
{
    experiment->label_ids = mem_array(labels->count, sizeof *experiment->label_ids);
    for (size_t i = 0; i < labels->count; i++) {
        insert_id(experiment->label_ids, &experiment->label_count, intern(core, labels->items[i]));
    }
}

void label_release(struct node *node)
{
    for (size_t i = 0; i < node->labels_given; i++) {
        free(node->labels[i]);
    }
    free(node->labels);
    free(node->label_ids);
    node->labels = NULL;
    node->labels_given = 0;
    node->label_ids = NULL;
    node->label_count = 0;
    node->label_cap = 0;
}

void label_give(struct core *core, struct node *node, const struct core_labels *labels)
{
    label_release(node);
    if (labels->count == 0) {
        return;
    }
    node->labels = mem_array(labels->count, sizeof *node->labels);
    for (size_t i = 0; i < labels->count; i++) {
        node->labels[node->labels_given++] = mem_strdup(labels->items[i]);
        bool found = false;
        size_t at = place_of(core, labels->items[i], &found);
        if (found) {
            node_learn(node, core->labels[at].id);
        }
    }
}

bool label_fits(const struct experiment_state_data *experiment, const struct node *node)
{
    size_t at = 0;
    for (size_t i = 0; i < experiment->label_count; i++) {
        while (at < node->label_count && node->label_ids[at] < experiment->label_ids[i]) {
            at++;
        }
        if (at == node->label_count || node->label_ids[at] != experiment->label_ids[i]) {
            return false;
        }
    }
    return true;
}
