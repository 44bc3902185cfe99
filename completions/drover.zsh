#compdef drover
# zsh completion for drover

_drover() {
    # The commands, and below in the case the options of each: these two places are all there is
    # to edit.
    local -a commands=(
        'check:say whether a recipe is right'
        'plan:show the tasks a recipe expands to'
        'run:run a recipe on this machine'
        'list:the runs in the default place'
        'status:how a run stands'
        'tasks:the tasks of a run'
        'logs:what a task printed'
        'sim:predict time and cost on many nodes'
        'catalog:machines and their prices'
        'advise:which machines to rent, and how many'
        'profile:measure a training command briefly'
        'analyse:when training stopped paying, and what it cost'
        'version:print the version'
        'help:explain a command'
    )
    local -a state=('--state=[state folder]:folder:_files -/')
    local -a json=('--json[one JSON object per line]')
    local -a set=('*--set=[change the recipe]:key=value:')
    local -a seed=('--seed=[seed of the sampling]:number:')
    local -a experiment=('(-e --experiment)'{-e+,--experiment=}'[only this experiment]:experiment:')
    local -a recipe=('1:recipe:_files -g "*.(yaml|yml)"')
    local -a run=('1::run:_drover_runs')

    if (( CURRENT == 2 )); then
        _describe -t commands command commands -- '(--help --version)'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
    check) _arguments $set $json $recipe ;;
    plan)
        _arguments $set $seed $json $experiment $recipe \
            '--limit=[only the first tasks of each experiment]:number:'
        ;;
    run)
        _arguments $set $state $seed $json $recipe \
            '(-n --slots)'{-n+,--slots=}'[processors to use]:number:' \
            '--resume=[go on with a run]:run:_drover_runs' \
            '--durable=[what accepted results survive]:what:(process power)' \
            '--plain[plain lines even on a terminal]' \
            '--quiet[neither progress nor summary]' \
            '--no-containers[run image\: tasks in this environment]' \
            '--ignore-hardware[run whatever hardware\: asks for]'
        ;;
    list) _arguments $json ;;
    status) _arguments $state $json $run ;;
    tasks) _arguments $state $json $experiment '--failed[only tasks that failed]' $run ;;
    logs) _arguments $state '(-f --follow)'{-f,--follow}'[keep printing]' '1:task:' ;;
    sim)
        _arguments $set $seed $json $recipe '--slots=[slots of each node]:number:' \
            '--limit=[of simulated time]:time:' \
            '--nodes=[how many nodes]:n:' \
            '--task-time=[how long a task takes]:time:' \
            '--mtbf=[mean life of a node]:time:' \
            '--boot-time=[until a lost node is replaced]:time:' \
            '--lease=[until a silent node is given up]:time:' \
            '--cut-share=[share of losses that are a cut cable]:share:' \
            '--net-loss=[share of messages sent again]:share:' \
            '--fail-share=[share of attempts that fail]:share:' \
            '--price=[of a node for an hour]:usd:'
        ;;
    catalog) _alternative 'verbs:verb:(list show check merge)' 'files:file:_files' ;;
    advise) _files ;;
    profile) _files ;;
    analyse) _alternative 'verbs:verb:(stabilise cost own map)' 'files:file:_files' ;;
    help) _describe -t commands command commands ;;
    esac
}

_drover_runs() {
    local -a ids=(${(f)"$(drover list --json 2>/dev/null </dev/null |
        sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')"})
    compadd -a ids
}

if [ "$funcstack[1]" = "_drover" ]; then
    _drover "$@"
else
    compdef _drover drover
fi
