#include "cli/load.h"

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "recipe/files.h"

#include <stdlib.h>
#include <string.h>

void load_add_set(struct load *load, const char *set)
{
    VEC_PUSH(load->sets, load->set_count, load->set_cap) = set;
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
    int exit_code = code == ERR_OK ? EXIT_DONE : cli_session_error(ERR_INVALID, &diags, &err, NULL);
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
