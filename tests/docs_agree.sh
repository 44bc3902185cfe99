#!/bin/bash
# The man page, the completions and the program name the same commands and options.
. "$(dirname "$0")/lib.sh"
t_start "man page and completions agree"

sorted() {
    LC_ALL=C sort -u
}

# .It Fl -slots Ar n
man_options=$(sed -n 's/^\.It Fl -\([a-z-]*\).*/\1/p' "$SOURCE/man/drover.1" | sorted)
man_commands=$(sed -n '/^\.Sh COMMANDS/,/^\.Sh OPTIONS/s/^\.It Cm \([a-z]*\).*/\1/p' \
    "$SOURCE/man/drover.1" | sorted)
table=$(sed -n "/^_drover_table='/,/^'/p" "$SOURCE/completions/drover.bash" | sed '1d;$d')
bash_options=$(grep -oE -e '--[a-z-]+' <<<"$table" | sed 's/^--//' | sorted)
zsh_options=$(grep -oE -e "'\*?--[a-z-]+" -e ",--[a-z-]+" "$SOURCE/completions/drover.zsh" |
    sed 's/.*--//' | sorted)
fish_options=$(sed -n 's/^__drover_option .* -l \([a-z-]*\).*/\1/p' \
    "$SOURCE/completions/drover.fish" | sorted)
check_equal "bash completes the commands of the man page" "$man_commands" \
    "$(awk '{ print $1 }' <<<"$table" | sorted)"
check_equal "zsh completes the commands of the man page" "$man_commands" \
    "$(sed -n "s/^        '\([a-z]*\):.*/\1/p" "$SOURCE/completions/drover.zsh" | sorted)"
check_equal "fish completes the commands of the man page" "$man_commands" \
    "$(sed -n 's/.*__fish_use_subcommand -a \([a-z]*\) .*/\1/p' \
        "$SOURCE/completions/drover.fish" | sorted)"
check_equal "bash completes the options of the man page" "$man_options" "$bash_options"
check_equal "zsh completes the options of the man page" "$man_options" "$zsh_options"
check_equal "fish completes the options of the man page" "$man_options" "$fish_options"

complete_bash() { # WORD... : what bash would offer for the last word
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _drover 2>/dev/null
             printf "%s\n" "${COMPREPLY[@]}"' bash "$SOURCE/completions/drover.bash" "$@" | sorted
}
touch one.yaml two.yml three.txt
check_equal "bash offers recipes" "one.yaml
two.yml" "$(complete_bash drover run '')"
check_equal "bash offers the values of an option" "power
process" "$(complete_bash drover run --durable '')"
