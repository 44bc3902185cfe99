# fish completion for drover

function __drover_runs
    drover list --json 2>/dev/null </dev/null | string replace -rf '.*"id": *"([^"]*)".*' '$1'
end

function __drover_recipes
    __fish_complete_suffix .yaml
    __fish_complete_suffix .yml
end

complete -c drover -f

# Commands.
complete -c drover -n __fish_use_subcommand -a check -d 'say whether a recipe is right'
complete -c drover -n __fish_use_subcommand -a plan -d 'show the tasks a recipe expands to'
complete -c drover -n __fish_use_subcommand -a run -d 'run a recipe on this machine'
complete -c drover -n __fish_use_subcommand -a list -d 'the runs in the default place'
complete -c drover -n __fish_use_subcommand -a status -d 'how a run stands'
complete -c drover -n __fish_use_subcommand -a tasks -d 'the tasks of a run'
complete -c drover -n __fish_use_subcommand -a logs -d 'what a task printed'
complete -c drover -n __fish_use_subcommand -a sim -d 'predict time and cost on many nodes'
complete -c drover -n __fish_use_subcommand -a catalog -d 'machines and their prices'
complete -c drover -n __fish_use_subcommand -a advise -d 'which machines to rent, and how many'
complete -c drover -n __fish_use_subcommand -a profile -d 'measure a training command briefly'
complete -c drover -n __fish_use_subcommand -a analyse -d 'when training stopped paying, and what it cost'
complete -c drover -n __fish_use_subcommand -a version -d 'print the version'
complete -c drover -n __fish_use_subcommand -a help -d 'explain a command'
complete -c drover -n __fish_use_subcommand -l help -d 'explain'
complete -c drover -n __fish_use_subcommand -l version -d 'print the version'

# Options, each with the commands that take it.
function __drover_option
    set -l commands (string split ' ' $argv[1])
    complete -c drover -n "__fish_seen_subcommand_from $commands" $argv[2..]
end
__drover_option 'check plan run sim' -l set -x -d 'key=value: change the recipe'
__drover_option 'plan run sim' -l seed -x -d 'seed of what is random'
__drover_option 'check plan run list status tasks sim' -l json -d 'one JSON object per line'
__drover_option 'run status tasks logs' -l state -x -a '(__fish_complete_directories)' -d 'state folder'
__drover_option 'plan sim' -l limit -x -d 'only the first tasks; or of simulated time'
__drover_option 'plan tasks' -s e -l experiment -x -d 'only this experiment'
__drover_option 'run sim' -l slots -x -d 'processors to use; of each node'
__drover_option sim -l nodes -x -d 'how many nodes'
__drover_option sim -l task-time -x -d 'how long a task takes'
__drover_option sim -l mtbf -x -d 'mean life of a node'
__drover_option sim -l boot-time -x -d 'until a lost node is replaced'
__drover_option sim -l lease -x -d 'until a silent node is given up'
__drover_option sim -l cut-share -x -d 'share of losses that are a cut cable'
__drover_option sim -l net-loss -x -d 'share of messages sent again'
__drover_option sim -l fail-share -x -d 'share of attempts that fail'
__drover_option sim -l price -x -d 'of a node for an hour'
__drover_option run -l resume -x -a '(__drover_runs)' -d 'go on with a run'
__drover_option run -l durable -x -a 'process power' -d 'what accepted results survive'
__drover_option run -l plain -d 'plain lines even on a terminal'
__drover_option run -l quiet -d 'neither progress nor summary'
__drover_option run -l no-containers -d 'run image: tasks in this environment'
__drover_option run -l ignore-hardware -d 'run whatever hardware: asks for'
__drover_option tasks -l failed -d 'only tasks that failed'
__drover_option logs -s f -l follow -d 'keep printing'

# Arguments.
__drover_option 'check plan run sim' -a '(__drover_recipes)'
__drover_option 'status tasks' -a '(__drover_runs)'
__drover_option catalog -F -a 'list show check merge'
__drover_option analyse -F -a 'stabilise cost own map'
__drover_option advise -F
__drover_option profile -F
__drover_option help -a 'check plan run list status tasks logs sim catalog advise profile analyse version'
functions -e __drover_option
