const serveText = `varve serve: the caching read proxy (the default command)

  varve serve [flags]

  --config FILE          settings; config/varve.yaml lists every key   (VARVE_CONFIG)
  --upstream URL         a full node; may be given more than once      (VARVE_UPSTREAM, comma-separated)
  --sandbox              instead: an embedded node with made-up data   (VARVE_SANDBOX=1)
  --listen HOST:PORT     public listener, default 127.0.0.1:8080       (VARVE_LISTEN)
  --admin HOST:PORT      admin listener, default 127.0.0.1:9464        (VARVE_ADMIN)
  --redis URL            tier that replicas share                      (VARVE_REDIS)
  --workers N            processes that share the listener, default 1  (VARVE_WORKERS)
  --log-level LEVEL      fatal, error, warn, info, debug, trace, silent (VARVE_LOG_LEVEL)

A flag overrides the environment, which overrides the file, which overrides the default.
SIGHUP reloads the configuration; SIGTERM and Ctrl-C exit after requests in flight have finished.
Port 0 picks a free port. Without an upstream varve needs --sandbox, and marks each response as made-up data.
Unknown VARVE_* variables are rejected, as unknown flags are.
Log lines are readable at a terminal (without colours if NO_COLOR is set), and JSON objects elsewhere.

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
  --block-ms N           milliseconds between blocks, default 250; 0: blocks only on request
  --chain-id N           default 4
  --family PREFIX        prefix of the position headers, default x-aptos-

  varve sandbox --seed 7 --block-ms 0
  curl -X POST 'http://127.0.0.1:8081/sandbox/grow?blocks=10'
`

const checkText = `varve check: validates a configuration

  varve check [FILE]

  --config FILE          the same as FILE                              (VARVE_CONFIG)

Prints the effective settings, secrets masked, and exits with 0; or lists every mistake with its key and exits with 2.
Without a FILE it checks the environment and the defaults.

  varve check config/varve.yaml
  VARVE_LISTEN=0.0.0.0:8080 varve check
`

const explainText = `varve explain: how varve would serve a request, without contacting an upstream

  varve explain METHOD PATH [flags]

  --data JSON            the body of a POST
  --accept TYPE          the client's Accept
  --config FILE          settings; passThrough, pages, latest and limits affect the result

PATH may be a whole URL. Prints the endpoint, the canonical upstream request, the key, the class (immutable, page,
moving, pass-through, refused) and the reason. The exit code is 0 for every class.

  varve explain GET '/v1/accounts/1/modules?ledger_version=%2B007'
  varve explain POST /v1/tables/0x5eed/item?ledger_version=7 --data '{"key_type":"u64","value_type":"u64","key":"07"}'
`

const warmText = `varve warm: fills the cache through a running varve

  varve warm --from V --to V [flags]
  varve warm FILE... [flags]

  --from V, --to V       the blocks that contain these ledger versions, both included
  --transactions         reads the blocks with their transactions
  --url URL              the running varve, default http://127.0.0.1:8080
  --concurrency N        concurrent reads, default 8
  --rate N               maximum reads per second; default: no limit
  --skip N               skips the first N lines, counted over all files
  --json                 JSON lines for programs: one every ten seconds, and one at the end

A FILE has one read per line: a path, or a JSON request with "method", "url", "body" and "accept", of which "url" is
required; - is standard input. docs/operations.md turns access logs of nginx and Caddy into paths. Only cacheable reads
are requested. A read is retried when varve or its upstreams are overloaded. Ctrl-C ends the run and prints the command
that resumes it. Exit 0: everything was read; 1: something was not, such as a line that is no request, which is reported
and skipped; 2: a FILE cannot be read.
VARVE_CLIENT_KEY in the environment is sent as the client's key.

  varve warm --from 0 --to 100000 --transactions
  varve warm reads.txt --rate 200
  cut -f 2 requests.tsv | varve warm -
`

const recordText = `varve record: forwards requests to an upstream, and records requests and responses in a file

  varve record --upstream URL --out FILE [flags]

  --upstream URL         the upstream, as for varve serve; may have a path prefix before /v1
  --out FILE             the recording, readable by its owner only
  --listen HOST:PORT     default 127.0.0.1:8082
  --header 'NAME: VALUE' sent upstream with each request; may be given more than once; \${NAME} is taken from the environment
  --force                replaces an existing file
  --max-body-mb N        longer bodies are forwarded but not recorded, default 16
  --max-mb N             maximum file size, default 256; further requests are forwarded but not recorded

Each request and its response become one line of JSON, byte for byte, after the response has ended. Credentials and
addresses of clients are left out: in headers, cookies, the path before /v1 and the query; *** replaces a credential
that a response repeats. Ctrl-C ends the recording and flushes it to disk. Exit 1: the file cannot be written.

  varve record --upstream http://127.0.0.1:8081 --out report.jsonl
  varve record --upstream https://node.example/key --header 'authorization: Bearer \${NODE_KEY}' --out report.jsonl
  varve serve --upstream http://127.0.0.1:8082
`

const replayText = `varve replay: an upstream that serves the responses in a file of varve record

  varve replay FILE [flags]

  --listen HOST:PORT     default 127.0.0.1:8081
  --timing               each response takes as long as the recorded one

An identical request gets the recorded response, byte for byte; else a request variant of the same read does, such as
another form of an address or a number. Several responses to a request are served in recorded order, and the last one
repeats. A response that was cut off is cut off again. A request without a recorded response gets 404 and is reported.
The whole file is checked first; mistakes are listed with their lines, and varve exits with 2.

  varve replay report.jsonl
  varve replay report.jsonl --timing --listen 127.0.0.1:9000
  varve serve --upstream http://127.0.0.1:8081
`

const varveText = `varve: the caching read proxy for ledger nodes

  varve [serve]          the proxy
  varve sandbox          the embedded node alone
  varve check [FILE]     validates a configuration
  varve explain METHOD PATH   how varve would serve a request
  varve warm             fills the cache through a running varve
  varve record           records requests to an upstream and its responses
  varve replay FILE      serves the responses of a recording

  varve COMMAND --help   the flags of a command, with examples; also varve help COMMAND
  varve --version, -V    prints the release

  varve --sandbox        to try varve on an embedded node with made-up data
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
