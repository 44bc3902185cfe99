/* space_fixture.h - spaces from YAML text, for the tests of space.h. */
#ifndef RECIPE_SPACE_FIXTURE_H
#define RECIPE_SPACE_FIXTURE_H

#include "recipe/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct arena arena;   /* the space */
    struct arena tree;    /* the YAML, gone before anything is drawn */
    struct arena scratch; /* drawn text */
    struct diag_list diags;
    struct space *space; /* or NULL with diags */
    uint64_t size;
    struct value values[SPACE_PARAMS_MAX];
};

/* yaml is a mapping with `parameters` and perhaps `zip`. */
static inline void fixture_parse(struct fixture *f, const char *yaml)
{
    *f = (struct fixture){.diags = {.file = "f"}};
    const struct ynode *root = yaml_parse(&f->tree, yaml, strlen(yaml), &f->diags);
    if (root) {
        f->space =
            space_parse(&f->arena, yaml_get(root, "parameters"), yaml_get(root, "zip"), &f->diags);
        assert_true((f->space != NULL) == (f->diags.count == 0));
    }
    arena_release(&f->tree);
}

static inline void fixture_release(struct fixture *f)
{
    diag_release(&f->diags);
    arena_release(&f->arena);
    arena_release(&f->scratch);
}

/* The same for a space that must be good and have no unbound files. */
static inline void fixture_good(struct fixture *f, const char *yaml)
{
    fixture_parse(f, yaml);
    for (size_t i = 0; i < f->diags.count; i++) {
        print_error("%s\n", f->diags.items[i].text);
    }
    assert_non_null(f->space);
    assert_int_equal(space_grid_size(f->space, &f->size, NULL), ERR_OK);
}

/* Task `index` as "name=text name=text", absent ones left out. */
static inline void fixture_draw(struct fixture *f, uint64_t key, bool sampled, uint64_t index,
                                struct str *out)
{
    str_clear(out);
    space_draw(f->space, key, sampled, index, f->values, &f->scratch);
    for (size_t i = 0; i < space_param_count(f->space); i++) {
        if (f->values[i].kind != VALUE_ABSENT) {
            assert_int_equal(strlen(f->values[i].text), f->values[i].size);
            str_addf(out, "%s%s=%s", out->size ? " " : "", space_param_name(f->space, i),
                     f->values[i].text);
        }
    }
}

#endif
