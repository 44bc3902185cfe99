#include "cli/load.h"

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "master/hunt.h"
#include "recipe/files.h"

#include <stdlib.h>
#include <string.h>

void load_add_set(struct load *load, const char *set)
{
    VEC_PUSH(load->sets, load->set_count, load->set_cap) = set;
}

static int print_json_errors(const struct diag_list *diags, const struct err *err)
{
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    json_object(&json);
    json_key(&json, "ok");
    json_bool(&json, false);
    json_key(&json, "errors");
    json_array(&json);
    for (size_t i = 0; i < diags->count || (i == 0 && diags->count == 0); i++) {
        json_object(&json);
        json_key(&json, "line");
        json_i64(&json, diags->count && diags->items[i].line > 0 ? diags->items[i].line : 0);
        json_key(&json, "column");
        json_i64(&json, diags->count && diags->items[i].column > 0 ? diags->items[i].column : 0);
        json_key(&json, "text");
        json_text(&json, diags->count ? diags->items[i].text : err->text);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
    str_add_char(&out, '\n');
    cli_write(&out);
    return EXIT_USAGE;
}

int load_recipe(struct load *load, const char *file)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    struct diag_list diags = {.file = file};
    enum err_code code = io_read_file(file, YAML_BYTES_MAX, &text, &err);
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    load->folder = recipe_folder_of(file);
    load->recipe =
        recipe_parse(file, str_text(&text), text.size, load->sets, load->set_count, &diags);
    code =
        load->recipe ? files_expand(load->recipe, load->folder, NULL, &diags, &err) : ERR_INVALID;
    if (code == ERR_OK) {
        code = hunt_check(load->recipe, load->recipe->seed, &diags, &err);
    }
    int exit_code = EXIT_DONE;
    if (code != ERR_OK && load->as_json) {
        exit_code = print_json_errors(&diags, &err);
    } else if (code != ERR_OK) {
        exit_code = cli_session_error(ERR_INVALID, &diags, &err, NULL);
    }
    diag_release(&diags);
    return exit_code;
}

void load_release(struct load *load)
{
    free(load->sets);
    free(load->folder);
    recipe_destroy(load->recipe);
    *load = (struct load){0};
}
