#include "search/importance_forest.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A node whose rows, order[begin .. end), are still to be divided, and its box. */
struct open_node {
    uint32_t node;
    size_t begin;
    size_t end;
    size_t box; /* of `boxes`: params low ends, then params high ends */
};

struct grower {
    const struct forest_data *data;
    struct forest_tree *tree;
    double *gains;
    struct rng *rng;
    uint32_t *order;
    uint32_t *spare;
    uint16_t *params; /* shuffled: the first few are tried */
    size_t tried;
    uint8_t *boxes;
    struct open_node *open;
    size_t open_count;
    size_t open_cap;
    size_t leaf_cap;
};

struct split {
    size_t param;
    size_t cut;
    double gain;
};

/* Sums by bin; `list` is the bins that have rows, in order, so that small nodes cost little. */
struct histogram {
    double counts[FOREST_BINS_MAX];
    double sums[FOREST_BINS_MAX];
    uint8_t list[FOREST_BINS_MAX];
    size_t listed;
};

static void fill_histogram(const struct grower *grower, const struct open_node *open, size_t param,
                           struct histogram *out)
{
    const struct forest_data *data = grower->data;
    uint64_t occupied[FOREST_BINS_MAX / 64] = {0};
    for (size_t i = open->begin; i < open->end; i++) {
        size_t row = grower->order[i];
        size_t bin = data->bins[row * data->params + param];
        uint64_t bit = UINT64_C(1) << (bin % 64);
        if (!(occupied[bin / 64] & bit)) {
            occupied[bin / 64] |= bit;
            out->counts[bin] = 0;
            out->sums[bin] = 0;
        }
        out->counts[bin]++;
        out->sums[bin] += data->results[row];
    }
    out->listed = 0;
    for (size_t word = 0; word < FOREST_BINS_MAX / 64; word++) {
        for (uint64_t left = occupied[word]; left != 0; left &= left - 1) {
            out->list[out->listed++] = (uint8_t)(64 * word + (size_t)__builtin_ctzll(left));
        }
    }
}

/* The cut that explains most. Bins without rows leave a choice of cuts: the middle one is taken. */
static void try_param(const struct grower *grower, const struct open_node *open, size_t param,
                      struct split *best)
{
    const uint8_t *box = grower->boxes + open->box;
    if (box[grower->data->params + param] - box[param] < 2) {
        return;
    }
    struct histogram histogram;
    fill_histogram(grower, open, param, &histogram);
    double count = (double)(open->end - open->begin);
    double sum = 0;
    for (size_t i = 0; i < histogram.listed; i++) {
        sum += histogram.sums[histogram.list[i]];
    }
    double left_count = 0;
    double left_sum = 0;
    for (size_t i = 0; i + 1 < histogram.listed; i++) {
        size_t bin = histogram.list[i];
        left_count += histogram.counts[bin];
        left_sum += histogram.sums[bin];
        double right_count = count - left_count;
        if (left_count < FOREST_LEAF_ROWS || right_count < FOREST_LEAF_ROWS) {
            continue;
        }
        double right_sum = sum - left_sum;
        double gain = left_sum * left_sum / left_count + right_sum * right_sum / right_count -
                      sum * sum / count;
        if (gain > best->gain) {
            size_t cut = (bin + 1 + histogram.list[i + 1]) / 2;
            *best = (struct split){.param = param, .cut = cut, .gain = gain};
        }
    }
}

/* Rows of the left child first, each side in the order it had. */
static size_t divide(struct grower *grower, const struct open_node *open, const struct split *split)
{
    const struct forest_data *data = grower->data;
    size_t left = open->begin;
    size_t right = 0;
    for (size_t i = open->begin; i < open->end; i++) {
        uint32_t row = grower->order[i];
        if (data->bins[row * data->params + split->param] < split->cut) {
            grower->order[left++] = row;
        } else {
            grower->spare[right++] = row;
        }
    }
    memcpy(grower->order + left, grower->spare, right * sizeof *grower->order);
    return left;
}

static uint32_t add_node(struct forest_tree *tree)
{
    VEC_PUSH(tree->nodes, tree->node_count, tree->node_cap) = (struct forest_node){0};
    return (uint32_t)(tree->node_count - 1);
}

static void make_leaf(struct grower *grower, const struct open_node *open)
{
    struct forest_tree *tree = grower->tree;
    size_t params = grower->data->params;
    size_t leaf = tree->leaf_count++;
    CHECK(leaf < grower->leaf_cap);
    double sum = 0;
    for (size_t i = open->begin; i < open->end; i++) {
        sum += grower->data->results[grower->order[i]];
    }
    tree->values[leaf] = sum / (double)(open->end - open->begin);
    memcpy(tree->low + leaf * params, grower->boxes + open->box, params);
    memcpy(tree->high + leaf * params, grower->boxes + open->box + params, params);
    tree->weights[leaf] = 1;
    for (size_t p = 0; p < params; p++) {
        const double *sums = grower->data->axes[p].sums;
        tree->weights[leaf] *=
            sums[tree->high[leaf * params + p]] - sums[tree->low[leaf * params + p]];
    }
    tree->nodes[open->node].leaf = true;
    tree->nodes[open->node].left = (uint32_t)leaf;
}

/* A few parameters chosen at random; the best split among them. */
static struct split find_split(struct grower *grower, const struct open_node *open)
{
    struct split best = {.gain = 1e-12};
    for (size_t i = 0; i < grower->tried; i++) {
        size_t k = i + (size_t)rng_below(grower->rng, grower->data->params - i);
        uint16_t param = grower->params[k];
        grower->params[k] = grower->params[i];
        grower->params[i] = param;
        try_param(grower, open, param, &best);
    }
    return best;
}

/* The node's box becomes the right child's. The left child's goes on top of it and is used up
 * first, so that boxes are a stack. */
static void open_children(struct grower *grower, const struct open_node *open,
                          const struct split *split)
{
    struct forest_tree *tree = grower->tree;
    size_t params = grower->data->params;
    size_t middle = divide(grower, open, split);
    uint32_t left = add_node(tree);
    uint32_t right = add_node(tree);
    struct forest_node *node = &tree->nodes[open->node];
    node->param = (uint16_t)split->param;
    node->cut = (uint8_t)split->cut;
    node->left = left;
    node->right = right;
    uint8_t *box = grower->boxes + open->box;
    uint8_t *above = box + 2 * params;
    memcpy(above, box, 2 * params);
    box[split->param] = (uint8_t)split->cut;
    above[params + split->param] = (uint8_t)split->cut;
    VEC_PUSH(grower->open, grower->open_count, grower->open_cap) =
        (struct open_node){.node = right, .begin = middle, .end = open->end, .box = open->box};
    VEC_PUSH(grower->open, grower->open_count, grower->open_cap) = (struct open_node){
        .node = left, .begin = open->begin, .end = middle, .box = open->box + 2 * params};
}

static void grow_all(struct grower *grower)
{
    while (grower->open_count > 0) {
        struct open_node open = grower->open[--grower->open_count];
        struct split split = {0};
        if (open.end - open.begin >= (size_t)2 * FOREST_LEAF_ROWS) {
            split = find_split(grower, &open);
        }
        if (split.cut == 0) {
            make_leaf(grower, &open);
        } else {
            grower->gains[split.param] += split.gain;
            open_children(grower, &open, &split);
        }
    }
}

static void draw_rows(struct grower *grower, bool *used)
{
    for (size_t i = 0; i < grower->data->rows; i++) {
        grower->order[i] = (uint32_t)rng_below(grower->rng, grower->data->rows);
        used[grower->order[i]] = true;
    }
}

void forest_grow(const struct forest_data *data, struct rng *rng, bool *used, double *gains,
                 struct forest_tree *out)
{
    size_t params = data->params;
    size_t leaves = data->rows / FOREST_LEAF_ROWS + 1;
    *out = (struct forest_tree){.values = mem_array(leaves, sizeof *out->values),
                                .weights = mem_array(leaves, sizeof *out->weights),
                                .low = mem_array(leaves, params),
                                .high = mem_array(leaves, params)};
    struct grower grower = {.data = data,
                            .tree = out,
                            .gains = gains,
                            .rng = rng,
                            .order = mem_array(data->rows, sizeof *grower.order),
                            .spare = mem_array(data->rows, sizeof *grower.spare),
                            .params = mem_array(params, sizeof *grower.params),
                            .tried = (5 * params + 5) / 6,
                            .boxes = mem_array(leaves + 1, 2 * params),
                            .leaf_cap = leaves};
    for (size_t p = 0; p < params; p++) {
        grower.params[p] = (uint16_t)p;
        grower.boxes[params + p] = (uint8_t)data->axes[p].bins;
    }
    draw_rows(&grower, used);
    VEC_PUSH(grower.open, grower.open_count, grower.open_cap) =
        (struct open_node){.node = add_node(out), .end = data->rows};
    grow_all(&grower);
    free(grower.order);
    free(grower.spare);
    free(grower.params);
    free(grower.boxes);
    free(grower.open);
}

void forest_release(struct forest_tree *tree)
{
    free(tree->nodes);
    free(tree->values);
    free(tree->weights);
    free(tree->low);
    free(tree->high);
    *tree = (struct forest_tree){0};
}

double forest_predict(const struct forest_tree *tree, const uint8_t *bins)
{
    const struct forest_node *node = &tree->nodes[0];
    while (!node->leaf) {
        node = &tree->nodes[bins[node->param] < node->cut ? node->left : node->right];
    }
    return tree->values[node->left];
}
