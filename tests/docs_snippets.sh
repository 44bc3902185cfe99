#!/bin/bash
# The documentation tells the truth: every recipe in it is checked by the program, every mistake it
# shows is the one the program tells, and every key and option there is has its place in it.
#
# In README.md and docs/recipe.md each ```yaml block is one of these:
#   begins "# wrong.yaml"        must be refused; the block after it shows lines of the output
#   begins "# in an experiment"  part of an experiment; an experiment `prepare` is there to wait for
#   begins "# in parameters"     part of its parameters
#   anything else                a whole recipe
. "$(dirname "$0")/lib.sh"
t_start "the documentation agrees with the program"

mkdir -p data/a data/b
touch data/a/1.txt data/b/2.txt

# Writes the blocks of a page as N.yaml, and the block that follows one as N.shown; prints the line
# numbers N.
cut_blocks() { # FILE FOLDER
    awk -v folder="$2" '
        /^```/ && !inside {
            inside = 1
            if ($0 == "```yaml") {
                number = FNR
                out = folder "/" number ".yaml"
                print number
            } else {
                out = number ? folder "/" number ".shown" : ""
                number = 0
            }
            if (out) { printf "" >out }
            next
        }
        /^```/ { inside = 0; if (out) { close(out) } next }
        inside && out { print >out }
    ' "$1"
}

# A part of a recipe as a whole one; what it lacks is added.
complete() { # BLOCK
    case $(head -n 1 "$1") in
    "# in an experiment")
        printf 'experiments:\n  prepare: {command: "true"}\n  part:\n'
        sed 's/^/    /' "$1"
        grep -qE '^(command|exec):' "$1" || echo '    command: "true"'
        ;;
    "# in parameters")
        printf 'experiments:\n  part:\n    samples: 5\n    command: "true"\n    parameters:\n'
        sed 's/^/      /' "$1"
        ;;
    *) cat "$1" ;;
    esac
}

check_wrong() { # NAME FOLDER/N
    local line missing=""
    cp "$2.yaml" wrong.yaml
    check_exit 2 "$1: what is called wrong is refused" "$DROVER" check wrong.yaml
    while read -r line; do
        grep -qxF -e "$line" "$T/harness/out" || missing+="$line"$'\n'
    done < <(grep '^wrong.yaml:' "$2.shown")
    if [ -z "$missing" ] && grep -q '^wrong.yaml:' "$2.shown"; then
        t_ok "$1: with the message shown"
    else
        t_not_ok "$1: with the message shown" "not told: ${missing:-(nothing is shown)}" "$(t_seen)"
    fi
}

for page in README.md docs/recipe.md; do
    folder=blocks/$page
    mkdir -p "$folder"
    numbers=$(cut_blocks "$SOURCE/$page" "$folder")
    check_equal "$page has recipes" yes "$([ -n "$numbers" ] && echo yes)"
    for n in $numbers; do
        if [ "$(head -n 1 "$folder/$n.yaml")" = "# wrong.yaml" ]; then
            check_wrong "$page:$n" "$folder/$n"
        else
            complete "$folder/$n.yaml" >recipe.yaml
            check "$page:$n is a good recipe" "$DROVER" check recipe.yaml
        fi
    done
done

# ---- what there is, is written down -----------------------------------------------------------

missing_in() { # FILE < WORDS : those that the file does not mention as `word`
    local word
    while read -r word; do
        grep -qF -e "\`$word\`" "$1" || echo "$word"
    done
}
keys=$(sed -n '/build_experiment_keys\[\] = {/,/^};/s/^ *{"\([a-z_]*\)".*/\1/p' \
    "$SOURCE/src/recipe/recipe_keys.c")
check_equal "the program's keys were found" yes "$([ "$(wc -l <<<"$keys")" -gt 20 ] && echo yes)"
check_equal "the reference has every key of an experiment" "" \
    "$(missing_in "$SOURCE/docs/recipe.md" <<<"$keys")"

for command in check plan run list status tasks logs trials best compare submit wait cancel retry nodes token exec map up down \
    clusters; do
    options=$("$DROVER" "$command" --help | grep -oE -e '--[a-z][a-z-]*' | LC_ALL=C sort -u)
    check_equal "the command reference has every option of $command" "" \
        "$(for option in $options; do
            awk -v heading="## drover $command" '
                /^## / { here = $0 == heading }
                here { print }' "$SOURCE/docs/commands.md" |
                grep -qF -e "$option" || echo "$option"
        done)"
    check_equal "the man page has every option of $command" "" \
        "$(for option in $options; do
            grep -qE -e "Fl -${option#--}( |\$)" "$SOURCE/man/drover.1" || echo "$option"
        done)"
done
check_equal "the command reference has every command" "" \
    "$(for command in $("$DROVER" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        grep -q "^## drover $command" "$SOURCE/docs/commands.md" || echo "$command"
    done)"

# ---- coverage ---------------------------------------------------------------------------------

coverage=$SOURCE/docs/coverage.md
named() { # KIND : the names after that word in the table
    grep -oE "$1 [a-z_]+(, [a-z_]+)*" "$coverage" | sed "s/^$1 //; s/, /\n/g" | LC_ALL=C sort -u
}
check_equal "the unit tests that the coverage names are there" "" \
    "$(for name in $(named '(; |\| |: )unit' | sed 's/.*unit //'); do
        compgen -G "$SOURCE/src/*/${name}_test.c" >/dev/null || echo "$name"
    done)"
check_equal "and the scripts" "" "$(for name in $(named e2e); do
    [ "$name" = NAME ] || [ -e "$SOURCE/tests/$name.sh" ] || echo "$name"
done)"
check_equal "and the single tests" "" \
    "$(grep -oE 'test_[a-z0-9_]+' "$coverage" | while read -r name; do
        grep -rqF "$name(" "$SOURCE/src" || echo "$name"
    done)"

# ---- links ------------------------------------------------------------------------------------

broken=$(cd "$SOURCE" && for page in README.md CONTRIBUTING.md docs/*.md; do
    grep -oE '\]\([^)#: ]+' "$page" | sed 's/^](//' | while read -r target; do
        [ -e "$(dirname "$page")/$target" ] || echo "$page: $target"
    done
done)
check_equal "links between the pages lead somewhere" "" "$broken"
