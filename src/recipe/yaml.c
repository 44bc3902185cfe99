/* The tree is built from libyaml's events with a stack of our own, so that depth is checked as the
 * text comes in and nothing recurses. Children wait on one shared list (`waiting`) until their
 * container ends; then they move into an array of the right size. */
#include "recipe/yaml.h"

#include "base/mem.h"
#include "recipe/yaml_internal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct frame {
    struct ynode *node;
    size_t first_child; /* in `waiting`; a mapping's keys and values alternate there */
};

struct anchor {
    const char *name;
    struct ynode *node;
};

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t size;
    struct arena *arena;
    struct diag_list *diags;
    struct frame stack[YAML_DEPTH_MAX];
    size_t depth;
    struct ynode **waiting;
    size_t waiting_count;
    size_t waiting_cap;
    void *anchors; /* a search tree of struct anchor, by name */
    uint64_t nodes;
    struct ynode *root;
    bool failed; /* a diagnosis was made: no tree comes out */
    bool stop;   /* and reading on makes no sense */
    size_t
        cursor_line; /* from 0; where `cursor` stands: events come in order, so it only moves on */
    size_t cursor;
};

static void fail_at(struct reader *reader, yaml_mark_t mark, const char *text)
{
    diag_add(reader->diags, (int)mark.line + 1, (int)mark.column + 1, "%s", text);
    reader->failed = true;
}

static void stop_at(struct reader *reader, yaml_mark_t mark, const char *text)
{
    fail_at(reader, mark, text);
    reader->stop = true;
}

static struct ynode *new_node(struct reader *reader, enum ynode_kind kind, yaml_mark_t mark)
{
    struct ynode *node = arena_alloc(reader->arena, sizeof *node);
    node->kind = kind;
    node->line = (int)mark.line + 1;
    node->column = (int)mark.column + 1;
    return node;
}

/* Work and memory are bounded by this count: every alias counts as all that it stands for. */
static void count_nodes(struct reader *reader, yaml_mark_t mark, uint64_t count)
{
    reader->nodes += count;
    if (reader->nodes > YAML_NODES_MAX) {
        struct ynode_weight weight = {.nodes = YAML_NODES_MAX + 1};
        stop_at(reader, mark, yaml_overweight(&weight));
    }
}

static bool at_key(const struct reader *reader)
{
    if (reader->depth == 0) {
        return false;
    }
    const struct frame *frame = &reader->stack[reader->depth - 1];
    return frame->node->kind == YNODE_MAPPING &&
           (reader->waiting_count - frame->first_child) % 2 == 0;
}

static void place(struct reader *reader, struct ynode *node)
{
    if (reader->depth == 0) {
        reader->root = node;
    } else {
        VEC_PUSH(reader->waiting, reader->waiting_count, reader->waiting_cap) = node;
    }
}

static int compare_anchors(const void *a, const void *b)
{
    return strcmp(((const struct anchor *)a)->name, ((const struct anchor *)b)->name);
}

static void keep_anchor(struct reader *reader, const yaml_char_t *name, struct ynode *node)
{
    if (!name) {
        return;
    }
    struct anchor *anchor = arena_alloc(reader->arena, sizeof *anchor);
    anchor->name = arena_strdup(reader->arena, (const char *)name);
    struct anchor **found = tsearch(anchor, &reader->anchors, compare_anchors);
    CHECK(found);
    (*found)->node = node; /* a later anchor of the same name takes its place, as YAML says */
}

static void check_tag(struct reader *reader, const yaml_event_t *event, const yaml_char_t *tag,
                      const char *expected)
{
    if (tag && strcmp((const char *)tag, "!") != 0 && strcmp((const char *)tag, expected) != 0) {
        diag_add(reader->diags, (int)event->start_mark.line + 1, (int)event->start_mark.column + 1,
                 "unknown tag '%.60s'", (const char *)tag);
        reader->failed = true;
    }
}

static enum ynode_type scalar_type(struct reader *reader, const yaml_event_t *event,
                                   const char *text)
{
    static const struct {
        const char *tag;
        enum ynode_type type;
    } tags[] = {{YAML_STR_TAG, YTYPE_TEXT},
                {YAML_NULL_TAG, YTYPE_NULL},
                {YAML_BOOL_TAG, YTYPE_BOOL},
                {YAML_INT_TAG, YTYPE_INTEGER},
                {YAML_FLOAT_TAG, YTYPE_NUMBER}};
    enum ynode_type plain = yaml_type_of(text, event->data.scalar.length);
    const char *tag = (const char *)event->data.scalar.tag;
    if (!tag) {
        return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain : YTYPE_TEXT;
    }
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        enum ynode_type type = tags[i].type;
        if (strcmp(tag, tags[i].tag) != 0) {
            continue;
        }
        bool fits =
            type == YTYPE_TEXT || type == plain || (type == YTYPE_NUMBER && plain == YTYPE_INTEGER);
        if (!fits) {
            fail_at(reader, event->start_mark, "the value does not fit its tag");
        }
        return type;
    }
    check_tag(reader, event, event->data.scalar.tag, "!");
    return YTYPE_TEXT;
}

static void check_key(struct reader *reader, const struct ynode *node, yaml_mark_t mark)
{
    if (node->size > YAML_KEY_MAX) {
        fail_at(reader, mark, "a key cannot be longer than 1024 bytes");
    } else if (node->type == YTYPE_NULL && node->size == 0) {
        fail_at(reader, mark, "a key is missing before ':'");
    }
}

/* How far the text below a block scalar's | is indented. */
static int indentation_below(struct reader *reader, size_t line)
{
    while (reader->cursor_line <= line && reader->cursor < reader->size) {
        const char *at = reader->text + reader->cursor;
        const char *end = memchr(at, '\n', reader->size - reader->cursor);
        reader->cursor = end ? (size_t)(end - reader->text) + 1 : reader->size;
        reader->cursor_line++;
    }
    size_t at = reader->cursor;
    size_t spaces = 0;
    while (at < reader->size && (reader->text[at] == ' ' || reader->text[at] == '\n')) {
        spaces = reader->text[at] == '\n' ? 0 : spaces + 1;
        at++;
    }
    return (int)spaces;
}

/* So that a mistake inside a command is shown where it stands. The lines of a folded (>) text are
 * no longer where they were: its mistakes are shown from its beginning on. */
static void find_text(struct reader *reader, const yaml_event_t *event, struct ynode *node)
{
    node->text_line = node->line;
    node->text_column = node->column;
    if (event->data.scalar.style == YAML_LITERAL_SCALAR_STYLE) {
        node->text_line++;
        node->text_column = indentation_below(reader, event->start_mark.line) + 1;
    } else if (event->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
               event->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE) {
        node->text_column++;
    }
}

static void on_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    if (memchr(text, '\0', size)) {
        fail_at(reader, event->start_mark, "a NUL byte is not allowed");
        size = strlen(text);
    }
    struct ynode *node = new_node(reader, YNODE_SCALAR, event->start_mark);
    node->text = arena_strndup(reader->arena, text, size);
    node->size = size;
    node->type = scalar_type(reader, event, text);
    find_text(reader, event, node);
    yaml_weigh(node);
    if (at_key(reader)) {
        check_key(reader, node, event->start_mark);
    }
    keep_anchor(reader, event->data.scalar.anchor, node);
    place(reader, node);
    count_nodes(reader, event->start_mark, 1);
}

static bool is_open(const struct reader *reader, const struct ynode *node)
{
    for (size_t i = 0; i < reader->depth; i++) {
        if (reader->stack[i].node == node) {
            return true;
        }
    }
    return false;
}

static void on_alias(struct reader *reader, const yaml_event_t *event)
{
    struct anchor wanted = {.name = (const char *)event->data.alias.anchor};
    if (at_key(reader)) {
        stop_at(reader, event->start_mark, "an alias cannot be a key");
        return;
    }
    struct anchor **found = tfind(&wanted, &reader->anchors, compare_anchors);
    if (!found) {
        diag_add(reader->diags, (int)event->start_mark.line + 1, (int)event->start_mark.column + 1,
                 "no anchor '&%.60s' stands above", wanted.name);
        reader->failed = true;
        reader->stop = true;
    } else if (is_open(reader, (*found)->node)) {
        stop_at(reader, event->start_mark, "an alias cannot stand inside what it refers to");
    } else {
        place(reader, (*found)->node);
        count_nodes(reader, event->start_mark, (*found)->node->weight.nodes);
    }
}

static void on_start(struct reader *reader, const yaml_event_t *event, enum ynode_kind kind,
                     const yaml_char_t *anchor)
{
    if (at_key(reader)) {
        bool braces =
            kind == YNODE_MAPPING && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        stop_at(reader, event->start_mark,
                braces ? "a value that begins with {{ must be in quotes"
                       : "a key must be plain text, not a list or mapping");
        return;
    }
    if (reader->depth == YAML_DEPTH_MAX) {
        struct ynode_weight weight = {.depth = YAML_DEPTH_MAX + 1};
        stop_at(reader, event->start_mark, yaml_overweight(&weight));
        return;
    }
    struct ynode *node = new_node(reader, kind, event->start_mark);
    keep_anchor(reader, anchor, node);
    reader->stack[reader->depth++] =
        (struct frame){.node = node, .first_child = reader->waiting_count};
    count_nodes(reader, event->start_mark, 1);
}

static void on_end(struct reader *reader)
{
    CHECK(reader->depth > 0);
    struct frame frame = reader->stack[--reader->depth];
    size_t child_count = reader->waiting_count - frame.first_child;
    struct ynode **children = child_count ? reader->waiting + frame.first_child : NULL;
    struct ynode *node = frame.node;
    if (node->kind == YNODE_MAPPING) {
        if (!yaml_fill_mapping(reader->arena, node, children, child_count / 2, reader->diags)) {
            reader->failed = true;
        }
    } else {
        node->items = arena_alloc(reader->arena, child_count * sizeof(struct ynode *));
        node->count = child_count;
        if (child_count) {
            memcpy(node->items, children, child_count * sizeof(struct ynode *));
        }
    }
    reader->waiting_count = frame.first_child;
    yaml_weigh(node);
    const char *trouble = yaml_overweight(&node->weight);
    if (trouble) {
        diag_add(reader->diags, node->line, node->column, "%s", trouble);
        reader->failed = reader->stop = true;
    }
    place(reader, node);
}

static void on_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->root) {
            stop_at(reader, event->start_mark,
                    "a second document begins here; a recipe is one document");
        }
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(reader, event);
        break;
    case YAML_ALIAS_EVENT:
        on_alias(reader, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        check_tag(reader, event, event->data.sequence_start.tag, YAML_SEQ_TAG);
        on_start(reader, event, YNODE_SEQUENCE, event->data.sequence_start.anchor);
        break;
    case YAML_MAPPING_START_EVENT:
        check_tag(reader, event, event->data.mapping_start.tag, YAML_MAP_TAG);
        on_start(reader, event, YNODE_MAPPING, event->data.mapping_start.anchor);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_end(reader);
        break;
    case YAML_STREAM_END_EVENT:
        reader->stop = true;
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
}

static void read_events(struct reader *reader)
{
    while (!reader->stop) {
        yaml_event_t event;
        if (!yaml_parser_parse(&reader->parser, &event)) {
            CHECK(reader->parser.error != YAML_MEMORY_ERROR);
            yaml_report_error(&reader->parser, reader->text, reader->size, reader->diags);
            reader->failed = reader->stop = true;
            return;
        }
        on_event(reader, &event);
        yaml_event_delete(&event);
    }
}

static void keep_in_arena(void *anchor)
{
    (void)anchor; /* the tree's own nodes are freed; what they point to is the arena's */
}

struct ynode *yaml_parse(struct arena *arena, const char *text, size_t size,
                         struct diag_list *diags)
{
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3; /* a byte order mark */
        size -= 3;
    }
    if (!yaml_check_text(text, size, diags)) {
        return NULL;
    }
    struct reader reader = {.text = text, .size = size, .arena = arena, .diags = diags};
    CHECK(yaml_parser_initialize(&reader.parser));
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    read_events(&reader);
    yaml_parser_delete(&reader.parser);
    tdestroy(reader.anchors, keep_in_arena);
    free(reader.waiting);
    if (!reader.failed && !reader.root) {
        diag_add(diags, 1, 1, "this is empty");
        return NULL;
    }
    return reader.failed ? NULL : reader.root;
}

const struct ynode *yaml_get(const struct ynode *mapping, const char *key)
{
    if (!mapping || mapping->kind != YNODE_MAPPING) {
        return NULL;
    }
    for (size_t i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->keys[i]->text, key) == 0) {
            return mapping->items[i];
        }
    }
    return NULL;
}
