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
complete -c drover -n __fish_use_subcommand -a serve -d 'be the master: workflows over HTTP, nodes that join'
complete -c drover -n __fish_use_subcommand -a node -d 'run the tasks of a master on this machine'
complete -c drover -n __fish_use_subcommand -a submit -d 'give a recipe to a server'
complete -c drover -n __fish_use_subcommand -a wait -d 'wait for a workflow to end'
complete -c drover -n __fish_use_subcommand -a cancel -d 'end a workflow or a task'
complete -c drover -n __fish_use_subcommand -a retry -d 'run again what failed'
complete -c drover -n __fish_use_subcommand -a nodes -d 'the nodes of a server'
complete -c drover -n __fish_use_subcommand -a token -d 'who may use a server'
complete -c drover -n __fish_use_subcommand -a exec -d 'run a command on the nodes'
complete -c drover -n __fish_use_subcommand -a map -d 'run a command for each line of a file'
complete -c drover -n __fish_use_subcommand -a up -d 'start nodes and a server here'
complete -c drover -n __fish_use_subcommand -a down -d 'end nodes that up started'
complete -c drover -n __fish_use_subcommand -a clusters -d 'what up started'
complete -c drover -n __fish_use_subcommand -a list -d 'the workflows and runs there are'
complete -c drover -n __fish_use_subcommand -a status -d 'how a run stands'
complete -c drover -n __fish_use_subcommand -a tasks -d 'the tasks of a run'
complete -c drover -n __fish_use_subcommand -a logs -d 'what a task printed'
complete -c drover -n __fish_use_subcommand -a trials -d 'the trials of a search, best first'
complete -c drover -n __fish_use_subcommand -a best -d 'the best trial and how to run it again'
complete -c drover -n __fish_use_subcommand -a compare -d 'searches side by side'
complete -c drover -n __fish_use_subcommand -a top -d 'watch a server'
complete -c drover -n __fish_use_subcommand -a sim -d 'predict time and cost on many nodes'
complete -c drover -n __fish_use_subcommand -a catalog -d 'machines and their prices'
complete -c drover -n __fish_use_subcommand -a advise -d 'which machines to rent, and how many'
complete -c drover -n __fish_use_subcommand -a profile -d 'measure a training command briefly'
complete -c drover -n __fish_use_subcommand -a report -d 'report metrics of a task'
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
__drover_option 'check plan run sim submit' -l set -x -d 'key=value: change the recipe'
__drover_option 'plan run sim submit' -l seed -x -d 'seed of what is random'
__drover_option 'check plan run list status tasks trials best compare sim top submit wait cancel retry nodes token exec map up down clusters logs serve' -l json -d 'one JSON object per line'
__drover_option 'run status tasks trials best compare logs top submit wait cancel retry nodes token exec map up down list serve' -l state -x -a '(__fish_complete_directories)' -d 'state folder'
__drover_option 'plan sim logs trials' -l limit -x -d 'only the first tasks, the best trials; or of simulated time'
__drover_option 'plan tasks logs trials best compare' -s e -l experiment -x -d 'only this experiment'
__drover_option 'run sim node map up' -l slots -x -d 'processors to use; of each node'
__drover_option top -l interval -x -d 'between looks'
__drover_option top -l once -d 'print it once and leave'
__drover_option 'sim run up' -l nodes -x -d 'how many nodes'
__drover_option sim -l task-time -x -d 'how long a task takes'
__drover_option sim -l mtbf -x -d 'mean life of a node'
__drover_option sim -l boot-time -x -d 'until a lost node is replaced'
__drover_option sim -l lease -x -d 'until a silent node is given up'
__drover_option sim -l cut-share -x -d 'share of losses that are a cut cable'
__drover_option sim -l net-loss -x -d 'share of messages sent again'
__drover_option sim -l fail-share -x -d 'share of attempts that fail'
__drover_option 'sim node up' -l price -x -d 'of a node for an hour'
__drover_option node -l join -r -d 'the master: @FILE or URL'
__drover_option 'node submit up' -l name -x -d 'what to be called'
__drover_option node -l work -x -a '(__fish_complete_directories)' -d 'folder to work in'
__drover_option 'node up' -l label -x -d 'something recipes can ask for'
__drover_option node -l grace -x -d 'between a notice and the end'
__drover_option node -l notice-file -r -d 'a notice when it appears'
__drover_option node -l no-share -d 'send files even on a shared disk'
__drover_option serve -l listen -x -d 'host:port for HTTP'
__drover_option serve -l wire -x -d 'host:port for nodes'
__drover_option serve -l public-host -x -d 'how nodes reach this machine'
__drover_option serve -l certificate -r -d 'PEM file for HTTPS'
__drover_option 'serve submit' -l key -r -d 'its key'
__drover_option run -l resume -x -a '(__drover_runs)' -d 'go on with a run'
__drover_option run -l durable -x -a 'process power' -d 'what accepted results survive'
__drover_option run -l plain -d 'plain lines even on a terminal'
__drover_option 'run node submit wait serve' -l quiet -d 'neither progress nor summary'
__drover_option 'run submit' -l no-containers -d 'run image: tasks in this environment'
__drover_option 'run submit' -l ignore-hardware -d 'run whatever hardware: asks for'
__drover_option tasks -l failed -d 'only tasks that failed'
__drover_option logs -s f -l follow -d 'keep printing'

__drover_option submit -l no-sync -d 'do not send the folder'
__drover_option submit -l wait -d 'wait for its end'
__drover_option 'wait exec map' -l timeout -x -d 'end it, or give up, after'
__drover_option nodes -s a -l all -d 'also those that left'
__drover_option 'nodes down' -l now -d 'end what runs there at once'
__drover_option nodes -l off -d 'let it take work again'
__drover_option token -l role -x -a 'admin user reader' -d 'what it may do'
__drover_option 'exec map up' -l on -x -d 'which nodes; where'
__drover_option 'exec map' -l workdir -x -d 'where it runs on the nodes'
__drover_option map -l cpu -x -d 'processors for each'
__drover_option map -l retries -x -d 'further attempts'
__drover_option map -l sync -d 'send this folder'
__drover_option down -l server -d 'end the server, too'
__drover_option logs -l attempt -x -d 'of an earlier attempt'
__drover_option logs -l grep -x -d 'lines that hold a text'
__drover_option logs -l regex -d 'the text is a regular expression'
__drover_option trials -l csv -d 'one line a trial'
__drover_option trials -l importance -d 'what each parameter explains'
__drover_option trials -l kind -x -a 'history parallel importance slices pareto' -d 'which picture'
__drover_option trials -l svg-dir -x -a '(__fish_complete_directories)' -d 'draw all pictures'
__drover_option 'trials compare' -l metric -x -d 'of several'
__drover_option 'trials compare' -l plot -d 'draw in the terminal'
__drover_option 'trials compare' -l svg -r -d 'draw a picture'

# Arguments.
__drover_option 'check plan run sim submit' -a '(__drover_recipes)'
__drover_option 'status tasks trials best compare wait cancel retry' -a '(__drover_runs)'
__drover_option nodes -a 'drain revoke'
__drover_option token -a 'create list rm'
__drover_option map -F
__drover_option catalog -F -a 'list show check merge'
__drover_option analyse -F -a 'stabilise cost own map'
__drover_option advise -F
__drover_option profile -F
__drover_option help -a 'check plan run node serve submit wait cancel retry nodes top token exec map up down clusters list status tasks logs trials best compare sim catalog advise profile report analyse version'
functions -e __drover_option
