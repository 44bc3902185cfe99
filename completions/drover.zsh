#compdef drover
# zsh completion for drover

_drover() {
    # The commands, and below in the case the options of each: these two places are all there is
    # to edit.
    local -a commands=(
        'check:say whether a recipe is right'
        'plan:show the tasks a recipe expands to'
        'run:run a recipe on this machine'
        'serve:be the master\: workflows over HTTP, nodes that join'
        'node:run the tasks of a master on this machine'
        'submit:give a recipe to a server'
        'wait:wait for a workflow to end'
        'cancel:end a workflow or a task'
        'retry:run again what failed'
        'nodes:the nodes of a server'
        'token:who may use a server'
        'exec:run a command on the nodes'
        'map:run a command for each line of a file'
        'up:start nodes and a server here'
        'down:end nodes that up started'
        'clusters:what up started'
        'list:the workflows and runs there are'
        'status:how a run stands'
        'tasks:the tasks of a run'
        'logs:what a task printed'
        'trials:the trials of a search, best first'
        'best:the best trial and how to run it again'
        'compare:searches side by side'
        'top:watch a server'
        'sim:predict time and cost on many nodes'
        'catalog:machines and their prices'
        'advise:which machines to rent, and how many'
        'profile:measure a training command briefly'
        'report:report metrics of a task'
        'analyse:when training stopped paying, and what it cost'
        'volume:volumes\: file systems that live in an object store'
        'data:files into a volume, out of it, and about it'
        'mount:make a volume a folder of this machine'
        'unmount:end a mount, once everything in it is stored'
        'meta:own a volume and serve it to mounts on many machines'
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
    local -a store=('--endpoint=[of an S3 store]:URL:' '--region=[of an S3 store]:region:'
        '--ca-file=[certificates to trust]:file:_files' '--addressing=[of buckets]:how:(path virtual)'
        '--profile=[of ~/.aws]:name:')

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
            '--nodes=[node processes to run on]:number:' \
            '--resume=[go on with a run]:run:_drover_runs' \
            '--durable=[what accepted results survive]:what:(process power)' \
            '--plain[plain lines even on a terminal]' \
            '--quiet[neither progress nor summary]' \
            '--no-containers[run image\: tasks in this environment]' \
            '--ignore-hardware[run whatever hardware\: asks for]'
        ;;
    serve)
        _arguments $state $json \
            '--listen=[for HTTP]:host\:port:' \
            '--wire=[for nodes]:host\:port:' \
            '--public-host=[how nodes reach this machine]:host:_hosts' \
            '--certificate=[PEM, for HTTPS]:file:_files' \
            '--key=[its key]:file:_files' \
            '--lease=[how long a silent node is believed in]:milliseconds:' \
            '--durable=[what accepted results survive]:what:(process power)' \
            '--quiet[say nothing]'
        ;;
    node)
        _arguments '(-n --slots)'{-n+,--slots=}'[processors to offer]:number:' \
            '--join=[the master]:@file or URL:_files -P @' \
            '--name=[what to be called]:name:' \
            '--work=[folder to work in]:folder:_files -/' \
            '*--label=[something recipes can ask for]:key=value:' \
            '--price=[of this machine for an hour]:amount:' \
            '--grace=[between a notice and the end]:time:' \
            '--notice-file=[a notice when it appears]:file:_files' \
            '--no-share[send files even on a shared disk]' \
            '--quiet[print nothing but errors]'
        ;;
    submit)
        _arguments $set $state $seed $json $recipe \
            '--name=[what it is called]:name:' \
            '--key=[the same key gives the same workflow]:key:' \
            '--no-sync[do not send the folder]' \
            '--wait[wait for its end]' \
            '(-q --quiet)'{-q,--quiet}'[only the id]' \
            '--no-containers[run image\: tasks in the nodes environment]' \
            '--ignore-hardware[run whatever hardware\: asks for]'
        ;;
    wait)
        _arguments $state $json $run '--timeout=[give up after]:time:' \
            '(-q --quiet)'{-q,--quiet}'[no progress and no summary]'
        ;;
    cancel) _arguments $state $json $run ;;
    retry) _arguments $state $json $run ;;
    nodes)
        _arguments $state $json '(-a --all)'{-a,--all}'[also those that left]' \
            '--now[with drain\: end what runs there]' '--off[let it take work again]' \
            '1::verb:(drain revoke)' '2::node:_drover_nodes'
        ;;
    volume)
        _arguments $store $json '--store=[where a new one is]:URL:' '--pack-size=[MiB]:number:' \
            '--compress=[zstd level]:number:' '--data[delete the files too]' '--yes[that is meant]' \
            '--take-over[from another owner]' '1:verb:(create add list show delete fsck repair export)' '*:volume:_files'
        ;;
    data)
        _arguments $store $json '(-r --recursive)'{-r,--recursive}'[folders with all they hold]' \
            '(-l --long)'{-l,--long}'[sizes and times]' '(-n --dry-run)'{-n,--dry-run}'[only say]' \
            '--list[the snapshots]' '--delete[a snapshot]' \
            '1:verb:(put get ls rm stat mv du sync verify snapshot gc import)' '*:path:_files'
        ;;
    mount)
        _arguments $store $json '--read-only[what is there now]' \
            '--fuse[FUSE answers everything]' \
            '--cache-dir=[where fetched data is kept]:folder:_files -/' \
            '--cache-size=[how much of it]:size:' '--allow-other[let other users in]' \
            '--take-over[from another owner]' '--foreground[stay]' '--stats[what a mount has done]' \
            '1:volume:' '2:folder:_files -/'
        ;;
    meta)
        _arguments '1:volume:' '--listen=[where]:host and port:' \
            '--public-host=[what others call this machine]:host:' \
            '--state=[its key and address]:folder:_files -/' '--lease=[of a mount, in ms]:ms:' \
            '--take-over[from another owner]' '--quiet[say nothing]' $store
        ;;
    unmount) _arguments '1:folder:_files -/' ;;
    token)
        _arguments $state $json '--role=[what it may do]:role:(admin user reader)' \
            '1:verb:(create list rm)' '2::name:'
        ;;
    exec)
        _arguments $state $json '--on=[which nodes]:selector:_drover_nodes' \
            '--timeout=[end it after]:time:' '--workdir=[where it runs]:folder:' \
            '*::command:_normal'
        ;;
    map)
        _arguments $state $json '--on=[which nodes]:node or label:_drover_nodes' \
            '(-n --slots)'{-n+,--slots=}'[at most so many at a time]:number:' \
            '--cpu=[processors for each]:number:' '--retries=[further attempts]:number:' \
            '--timeout=[end it after]:time:' '--sync[send this folder]' \
            '--workdir=[where it runs]:folder:' '1:command:' '2:file:_files'
        ;;
    up)
        _arguments $state $json '--on=[where]:place:(local)' '--nodes=[how many]:number:' \
            '--slots=[of each]:number:' '*--label=[something recipes can ask for]:key=value:' \
            '--price=[of a node for an hour]:amount:' '--name=[what they are called]:name:'
        ;;
    down)
        _arguments $state $json '--server[end the server, too]' '--now[kill them at once]'
        ;;
    clusters) _arguments $json ;;
    list) _arguments $state $json ;;
    status) _arguments $state $json $run ;;
    tasks) _arguments $state $json $experiment '--failed[only tasks that failed]' $run ;;
    logs)
        _arguments $state $json $experiment '(-f --follow)'{-f,--follow}'[keep printing]' \
            '--attempt=[of an earlier attempt]:number:' \
            '--grep=[lines that hold a text]:text:' '--regex[it is a regular expression]' \
            '--limit=[stop after so many]:number:' '1:task:'
        ;;
    trials)
        _arguments $state $json $experiment $run '--csv[one line a trial]' \
            '--limit=[only the best]:number:' \
            '--importance[what each parameter explains]' \
            '--metric=[of several]:metric:' '--plot[draw in the terminal]' \
            '--svg=[draw a picture]:file:_files' \
            '--kind=[which picture]:kind:(history parallel importance slices pareto)' \
            '--svg-dir=[draw them all]:folder:_files -/'
        ;;
    best) _arguments $state $json $experiment $run ;;
    compare)
        _arguments $state $json $experiment '--metric=[of several]:metric:' \
            '--plot[draw in the terminal]' '--svg=[draw a picture]:file:_files' \
            '*:run:_drover_runs'
        ;;
    top)
        _arguments $state $json '--interval=[between looks]:time:' '--once[print it once]'
        ;;
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
    advise)
        _arguments $json '--profile=[what short runs measured]:file:_files' \
            '--spot[also spot workers]' '--loss-rate=[losses an hour of a machine]:rate:' \
            '*--spot-trace=[records of spot machines]:file:_files' '*:file:_files'
        ;;
    profile) _files ;;
    report) _message 'name=number' ;;
    analyse) _alternative 'verbs:verb:(stabilise cost own map)' 'files:file:_files' ;;
    help) _describe -t commands command commands ;;
    esac
}

_drover_runs() {
    local -a ids=(${(f)"$(drover list --json 2>/dev/null </dev/null |
        sed -n 's/.*"id": *"\([^"]*\)".*/\1/p')"})
    compadd -a ids
}

_drover_nodes() {
    local -a names=(${(f)"$(drover nodes --json 2>/dev/null </dev/null |
        sed -n 's/^{"name": *"\([^"]*\)".*/\1/p')"})
    compadd -a names
}

if [ "$funcstack[1]" = "_drover" ]; then
    _drover "$@"
else
    compdef _drover drover
fi
