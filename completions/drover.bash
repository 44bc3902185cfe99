# bash completion for drover                                               -*- shell-script -*-

# The one table to edit: COMMAND | WHAT ITS ARGUMENT IS | OPTIONS. An option that takes a value
# ends in "="; the value is completed by _drover_value below.
_drover_table='
check    recipe   --set= --json
plan     recipe   --json --limit= --experiment= --seed= --set=
run      recipe   --slots= --nodes= --state= --resume= --set= --seed= --json --plain --quiet --durable= --no-containers --ignore-hardware
serve    none     --state= --listen= --wire= --public-host= --certificate= --key= --lease= --durable= --json --quiet
node     none     --join= --slots= --name= --work= --label= --price= --grace= --notice-file= --no-share --quiet
submit   recipe   --state= --set= --seed= --name= --key= --no-sync --wait --json --quiet --no-containers --ignore-hardware
wait     run      --state= --timeout= --json --quiet
cancel   run      --state= --json
retry    run      --state= --json
nodes    nodes    --state= --all --now --off --json
token    token    --state= --role= --json
exec     none     --on= --timeout= --workdir= --state= --json
map      file     --on= --slots= --cpu= --retries= --timeout= --sync --workdir= --state= --json
up       none     --on= --nodes= --slots= --label= --price= --name= --state= --json
down     none     --server --now --state= --json
clusters none     --json
list     none     --state= --json
status   run      --state= --json
tasks    run      --state= --failed --experiment= --json
logs     task     --state= --follow --attempt= --grep= --regex --experiment= --limit= --json
trials   run      --state= --experiment= --json --csv --limit= --importance --metric= --plot --svg= --kind= --svg-dir=
best     run      --state= --experiment= --json
compare  run      --state= --experiment= --metric= --plot --svg= --json
top      none     --state= --interval= --once --json
sim      recipe   --nodes= --slots= --task-time= --mtbf= --boot-time= --lease= --cut-share= --net-loss= --fail-share= --price= --limit= --seed= --set= --json
catalog  file
advise   file     --profile= --region= --spot --loss-rate= --spot-trace= --limit= --seed= --json
profile  file
report   none
analyse  file
volume   volume   --store= --pack-size= --compress= --data --yes --take-over --endpoint= --region= --ca-file= --addressing= --profile= --json
data     data     --recursive --long --dry-run --list --delete --endpoint= --region= --ca-file= --addressing= --profile= --json
mount    volumes  --read-only --fuse --cache-dir= --cache-size= --allow-other --take-over --foreground --stats --endpoint= --region= --ca-file= --addressing= --profile= --json
unmount  file
meta     volume   --listen= --public-host= --state= --lease= --take-over --quiet --endpoint= --region= --ca-file= --addressing= --profile=
version  none
help     command
'

_drover_commands() {
    awk 'NF { print $1 }' <<<"$_drover_table"
}

_drover_recipes() {
    compgen -d -S / -- "$1"
    compgen -f -X '!*.@(yaml|yml)' -- "$1"
}

_drover_value() { # OPTION PREFIX
    case $1 in
    --state | --work | --svg-dir) compgen -d -S / -- "$2" ;;
    --join) compgen -P @ -f -- "${2#@}" ;;
    --notice-file | --svg | --spot-trace) compgen -f -- "$2" ;;
    --kind) compgen -W 'history parallel importance slices pareto' -- "$2" ;;
    --durable) compgen -W 'process power' -- "$2" ;;
    --cache-dir) compgen -d -S / -- "$2" ;;
    --ca-file) compgen -f -- "$2" ;;
    --addressing) compgen -W 'path virtual' -- "$2" ;;
    --role) compgen -W 'admin user reader' -- "$2" ;;
    --slots) compgen -W "1 2 4 8 $(nproc 2>/dev/null)" -- "$2" ;;
    --resume) compgen -W "$(_drover_runs)" -- "$2" ;;
    esac
}

_drover_runs() {
    drover list --json 2>/dev/null </dev/null | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p'
}

_drover_volumes() {
    drover volume list --json 2>/dev/null </dev/null | sed -n 's/^{"name":"\([^"]*\)".*/\1/p'
}

_drover_nodes() {
    drover nodes --json 2>/dev/null </dev/null | sed -n 's/^{"name": *"\([^"]*\)".*/\1/p'
}

_drover_argument() { # KIND PREFIX
    case $1 in
    recipe) _drover_recipes "$2" ;;
    file) compgen -f -- "$2" ;;
    run) compgen -W "$(_drover_runs)" -- "$2" ;;
    nodes) compgen -W "drain revoke $(_drover_nodes)" -- "$2" ;;
    token) compgen -W 'create list rm' -- "$2" ;;
    volume) compgen -W "create add list show delete fsck repair export $(_drover_volumes)" -- "$2" ;;
    data)
        compgen -W "put get ls rm stat mv du sync verify snapshot gc import $(_drover_volumes)" -- "$2"
        compgen -f -- "$2"
        ;;
    volumes)
        compgen -W "$(_drover_volumes)" -- "$2"
        compgen -d -S / -- "$2"
        ;;
    command) compgen -W "$(_drover_commands)" -- "$2" ;;
    esac
}

_drover() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' kind='' options='' word found
    local extglob_was
    extglob_was=$(shopt -p extglob)
    shopt -s extglob
    COMPREPLY=()

    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        -* | =) ;;
        *)
            command=$word
            break
            ;;
        esac
    done
    read -r _ kind options < <(awk -v c="$command" '$1 == c' <<<"$_drover_table") || true

    # "--state=DIR" reaches us as three words: --state, = and DIR.
    if [ "$current" = "=" ]; then
        current=''
    elif [ "$previous" = "=" ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    if [ -z "$command" ]; then
        found=$(compgen -W "$(_drover_commands) --help --version" -- "$current")
    elif [[ " $options " == *" $previous= "* ]]; then
        found=$(_drover_value "$previous" "$current")
    elif [[ $current == -* ]]; then
        found=$(compgen -W "${options//=/} --help" -- "$current")
    else
        found=$(_drover_argument "$kind" "$current")
    fi
    mapfile -t COMPREPLY < <(printf '%s' "$found")
    if [ "${#COMPREPLY[@]}" -eq 1 ] && [[ ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
    eval "$extglob_was"
}

complete -F _drover drover
