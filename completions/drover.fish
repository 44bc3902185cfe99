# fish completion for drover

function __drover_workflows
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
complete -c drover -n __fish_use_subcommand -a status -d 'how far a workflow is'
complete -c drover -n __fish_use_subcommand -a tasks -d 'the tasks of a workflow'
complete -c drover -n __fish_use_subcommand -a logs -d 'what a task printed'
complete -c drover -n __fish_use_subcommand -a list -d 'the workflows in the state folder'
complete -c drover -n __fish_use_subcommand -a completion -d 'print the completion script of a shell'
complete -c drover -n __fish_use_subcommand -a version -d 'print the version'
complete -c drover -n __fish_use_subcommand -a help -d 'explain a command'
complete -c drover -n __fish_use_subcommand -l help -d 'explain'
complete -c drover -n __fish_use_subcommand -l version -d 'print the version'

# Options, each with the commands that take it.
function __drover_option
    set -l commands (string split ' ' $argv[1])
    complete -c drover -n "__fish_seen_subcommand_from $commands" $argv[2..]
end
__drover_option 'check plan run' -l set -x -d 'name=value: set a parameter or variable'
__drover_option 'plan run' -l seed -x -d 'seed of the sampling'
__drover_option 'check plan run status tasks list' -l json -d 'one JSON object per line'
__drover_option 'run status tasks logs list' -l state -x -a '(__fish_complete_directories)' -d 'state folder'
__drover_option run -l slots -x -d 'tasks at a time'
__drover_option run -l resume -x -a '(__drover_workflows)' -d 'continue a workflow'
__drover_option run -l durable -x -a 'process power' -d 'what accepted results survive'
__drover_option run -l quiet -d 'print only the summary'
__drover_option run -l no-containers -d 'run image: tasks in this environment'
__drover_option run -l ignore-hardware -d 'run although hardware is missing'
__drover_option logs -s f -l follow -d 'keep printing'

# Arguments.
__drover_option 'check plan run' -a '(__drover_recipes)'
__drover_option 'status tasks' -a '(__drover_workflows)'
__drover_option completion -a 'bash zsh fish'
__drover_option help -a 'check plan run status tasks logs list completion version'
functions -e __drover_option
