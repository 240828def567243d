const serveText = `varve serve: the caching read proxy (the default command)

  varve serve [flags]

  --config FILE          settings; config/varve.yaml lists every key   (VARVE_CONFIG)
  --upstream URL         a full node; may be given more than once      (VARVE_UPSTREAM, comma-separated)
  --sandbox              instead: an embedded node with made-up data   (VARVE_SANDBOX=1)
  --listen HOST:PORT     public listener, default 127.0.0.1:8080       (VARVE_LISTEN)
  --admin HOST:PORT      admin listener, default 127.0.0.1:9464        (VARVE_ADMIN)
  --redis URL            shared store                                  (VARVE_REDIS)
  --workers N            processes that share the listener, default 1  (VARVE_WORKERS)
  --log-level LEVEL      fatal, error, warn, info, debug, trace, silent (VARVE_LOG_LEVEL)

A flag is stronger than the environment, that than the file, that than the default.
SIGHUP reads the configuration anew; SIGTERM and Ctrl-C finish what is under way.
Port 0 takes a free one. Without an upstream varve needs --sandbox, and says with each response that its data is made up.
An unknown VARVE_* variable is rejected, as an unknown flag is.
The log is for people at a terminal (without colours where NO_COLOR is set), and one JSON object a line elsewhere.

  varve --upstream http://127.0.0.1:8081
  varve --sandbox
  varve serve --upstream http://127.0.0.1:8081 --redis redis://127.0.0.1:6379 --workers 2
  varve serve --config config/one-node.yaml --listen 0.0.0.0:8080
`

const sandboxText = `varve sandbox: the embedded node alone, on made-up but consistent chain data

  varve sandbox [flags]

  --listen HOST:PORT     default 127.0.0.1:8081
  --seed N               equal seeds make equal ledgers, default 1
  --blocks N             blocks at the start, default 1000
  --block-ms N           a block every so many milliseconds, default 250; 0: only by hand
  --chain-id N           default 4
  --family PREFIX        of the position headers, default x-aptos-

  varve sandbox --seed 7 --block-ms 0
  curl -X POST 'http://127.0.0.1:8081/sandbox/grow?blocks=10'
`

const checkText = `varve check: validates a configuration

  varve check [FILE]

  --config FILE          the same as FILE                              (VARVE_CONFIG)

Exit 0 and the effective settings, secrets masked; or exit 2 and every mistake, each with its key and what was expected.
Without a FILE: the environment and the defaults.

  varve check config/varve.yaml
  VARVE_LISTEN=0.0.0.0:8080 varve check
`

const explainText = `varve explain: what varve would do with a request, without asking a node

  varve explain METHOD PATH [flags]

  --data JSON            the body of a POST
  --accept TYPE          the client's Accept
  --config FILE          settings; passThrough, pages, latest and limits bear on the answer

PATH may be a whole URL. It prints the endpoint, the canonical request upstream, the key, the class (immutable, page,
moving, pass-through, refused) and why. The exit code is 0 whatever comes of it.

  varve explain GET '/v1/accounts/1/modules?ledger_version=%2B007'
  varve explain POST /v1/tables/0x5eed/item?ledger_version=7 --data '{"key_type":"u64","value_type":"u64","key":"07"}'
`

const warmText = `varve warm: reads into the cache through a running varve

  varve warm --from V --to V [flags]
  varve warm FILE... [flags]

  --from V, --to V       the blocks that hold these ledger versions, both included
  --transactions         with their transactions
  --url URL              the running varve, default http://127.0.0.1:8080
  --concurrency N        reads at once, default 8
  --rate N               reads a second at most; without it as many as varve answers
  --skip N               leaves out the first N lines, counted over all files
  --json                 lines for programs: one each ten seconds, and one at the end

A FILE has one read a line: a path, or a request as JSON with "method", "url", "body" and "accept", of which "url" is
required; - is what comes from a pipe. docs/operations.md turns access logs of nginx and Caddy into paths. Only what can
be stored is requested. What varve or its upstreams have no time for is requested again. Ctrl-C ends the run and prints
the command that goes on. Exit 0 when all was read; 1 where something was not, such as a line that is no request, which is
named and left out; 2 where a FILE cannot be read.
VARVE_CLIENT_KEY in the environment is sent as the client's key.

  varve warm --from 0 --to 100000 --transactions
  varve warm reads.txt --rate 200
  cut -f 2 requests.tsv | varve warm -
`

const recordText = `varve record: passes on to a node, and writes what it is asked and answers to a file

  varve record --upstream URL --out FILE [flags]

  --upstream URL         the node, as varve serve is given it; may carry a path prefix before /v1
  --out FILE             what is written, for its owner alone
  --listen HOST:PORT     where it is asked, default 127.0.0.1:8082
  --header 'NAME: VALUE' sent to the node with each question; may be given more than once; \${NAME} is taken from the environment
  --force                replaces a file of that name
  --max-body-mb N        a longer body is passed on and not written, default 16
  --max-mb N             how long the file may become, default 256; what comes after is passed on and not written

A question and its answer are a line of JSON, written when the answer has ended, byte for byte as it came. Left out is who asks: credentials in
headers, cookies, the path before /v1, keys in a query, addresses; where an answer repeats a credential *** stands in its place.
Ctrl-C ends it, and everything is on the disk. Exit 1 where the file cannot be written any more.

  varve record --upstream http://127.0.0.1:8081 --out report.jsonl
  varve record --upstream https://node.example/key --header 'authorization: Bearer \${NODE_KEY}' --out report.jsonl
  varve serve --upstream http://127.0.0.1:8082
`

const replayText = `varve replay: a node that answers from a file of varve record

  varve replay FILE [flags]

  --listen HOST:PORT     default 127.0.0.1:8081
  --timing               each answer takes as long as it took

What was answered to the very same question is given again, byte for byte; else what was answered to one that means the same (another
spelling of an address, of a number). Several answers to a question are given in their order, and the last one then for ever. What
broke off breaks off again. What is not in the file is answered with 404 and told of. All of the file is checked first: exit 2 and every
mistake, each with its line.

  varve replay report.jsonl
  varve replay report.jsonl --timing --listen 127.0.0.1:9000
  varve serve --upstream http://127.0.0.1:8081
`

const varveText = `varve: the caching read proxy for ledger nodes

  varve [serve]          the proxy
  varve sandbox          the embedded node alone
  varve check [FILE]     validates a configuration
  varve explain METHOD PATH   what varve would do with a request
  varve warm             reads into the cache through a running varve
  varve record           writes what a node is asked and answers to a file
  varve replay FILE      a node that answers from it

  varve COMMAND --help   the flags of one, with examples; also varve help COMMAND
  varve --version, -V    which release this is

  varve --sandbox        to look round: in front of an embedded node with made-up data
  varve serve --upstream http://127.0.0.1:8081
`

const texts = {
  varve: varveText,
  serve: serveText,
  sandbox: sandboxText,
  check: checkText,
  explain: explainText,
  warm: warmText,
  record: recordText,
  replay: replayText
} as const

/** Commands with a help text of their own. */
export type HelpTopic = keyof typeof texts

/** Narrows a command line word to a help topic. */
export function isHelpTopic (word: string): word is HelpTopic {
  return Object.hasOwn(texts, word)
}

/** Returns the help text of a command. */
export function helpOf (command: HelpTopic): string {
  return texts[command]
}
