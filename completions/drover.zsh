#compdef drover
# zsh completion for drover

_drover() {
    # The commands, and below in the case the options of each: these two places are all there is
    # to edit.
    local -a commands=(
        'check:say whether a recipe is right'
        'plan:show the tasks a recipe expands to'
        'run:run a recipe on this machine'
        'status:how far a workflow is'
        'tasks:the tasks of a workflow'
        'logs:what a task printed'
        'list:the workflows in the state folder'
        'completion:print the completion script of a shell'
        'version:print the version'
        'help:explain a command'
    )
    local -a state=('--state=[state folder]:folder:_files -/')
    local -a json=('--json[one JSON object per line]')
    local -a set=('*--set=[set a parameter or variable]:name=value:')
    local -a recipe=('1:recipe:_files -g "*.(yaml|yml)"')
    local -a workflow=('1::workflow:_drover_workflows')

    if (( CURRENT == 2 )); then
        _describe -t commands command commands -- '(--help --version)'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
    check) _arguments $set $json $recipe ;;
    plan) _arguments $set '--seed=[seed of the sampling]:number:' $json $recipe ;;
    run)
        _arguments $set $state $json $recipe \
            '--slots=[tasks at a time]:number:' \
            '--resume=[continue a workflow]:workflow:_drover_workflows' \
            '--seed=[seed of the sampling]:number:' \
            '--durable=[what accepted results survive]:what:(process power)' \
            '--quiet[print only the summary]' \
            '--no-containers[run image\: tasks in this environment]' \
            '--ignore-hardware[run although hardware is missing]'
        ;;
    status | tasks) _arguments $state $json $workflow ;;
    logs) _arguments $state '(-f --follow)'{-f,--follow}'[keep printing]' '1:task:' ;;
    list) _arguments $state $json ;;
    completion) _arguments '1:shell:(bash zsh fish)' ;;
    help) _describe -t commands command commands ;;
    esac
}

_drover_workflows() {
    local -a ids=(${(f)"$(drover list --json 2>/dev/null </dev/null |
        sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')"})
    compadd -a ids
}

if [ "$funcstack[1]" = "_drover" ]; then
    _drover "$@"
else
    compdef _drover drover
fi
