import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { blockFaults, blocksIn, matchesOutput, pageConfig, pagesIn } from './support/readme/code-blocks.js'
import { PagePorts, isSandboxCommand, isServerCommand } from './support/readme/page-runner.js'

const fence = '```'
const page = (...lines: string[]): string => lines.join('\n').replaceAll('~~~', fence)
const faults = (...lines: string[]): string[] => blockFaults(blocksIn('p.md', page(...lines)))

t.test('every block of the README and docs is run or checked by npm run readme, or says why not', async t => {
  t.same(pagesIn(join(import.meta.dirname, '..')).flatMap(({ blocks }) => blockFaults(blocks)), [])
})

t.test('the blocks of a page are found with their line, language and expected output', async t => {
  const blocks = blocksIn(
    'p.md',
    page(
      '# A',
      '',
      '~~~sh',
      'echo 1',
      '',
      'echo 2',
      '~~~',
      '',
      '~~~',
      '1',
      '2',
      '~~~',
      'text',
      '- a list',
      '  ~~~yaml',
      '  a:',
      '    b: 1',
      '  ~~~',
      ''
    )
  )
  t.match(blocks, [
    {
      page: 'p.md',
      line: 3,
      language: 'sh',
      text: 'echo 1\n\necho 2',
      expectedOutput: { text: '1\n2', numbersDiffer: false },
      skipReason: undefined,
      exitCode: 0
    },
    { line: 15, language: 'yaml', text: 'a:\n  b: 1', expectedOutput: undefined }
  ])
  t.equal(blocks.length, 2)
  t.throws(() => blocksIn('p.md', page('~~~sh', 'echo')), { message: 'p.md:1: a block without an end' })
  t.equal(blocksIn('p.md', ['````md', fence, 'x', fence, '````'].join('\n')).length, 1)
})

t.test('comments above a block set its file, exit code, skip reason and differing numbers', async t => {
  const [first, second, third] = blocksIn(
    'p.md',
    page(
      '<!-- not run: wants a cluster -->',
      '~~~sh',
      'x',
      '~~~',
      '<!-- file: a.yaml -->',
      '',
      '~~~yaml',
      'a: 1',
      '~~~',
      '<!-- exit code: 2 -->',
      '~~~sh',
      'false',
      '~~~',
      '<!-- numbers differ -->',
      '~~~',
      '7',
      '~~~'
    )
  )
  t.match([first, second, third], [{ skipReason: 'wants a cluster' }, { file: 'a.yaml', skipReason: undefined }, {
    exitCode: 2,
    expectedOutput: { text: '7', numbersDiffer: true }
  }])
  t.match(
    blocksIn('p.md', page('<!-- not run: x -->', 'text', '~~~sh', 'x', '~~~')),
    [{ skipReason: undefined }],
    'a comment applies only to the block right below'
  )
})

t.test('a block that cannot be run or checked, and gives no reason, is a fault', async t => {
  t.same(
    faults(
      '~~~sh',
      'x',
      '~~~',
      '~~~',
      'y',
      '~~~',
      '~~~json',
      '{}',
      '~~~',
      '~~~promql',
      'up',
      '~~~',
      '~~~yaml',
      '~~~',
      '~~~console',
      'x',
      '~~~'
    ),
    []
  )
  t.same(faults('text', '~~~', 'x', '~~~'), [
    'p.md:2: a block without a language stands right below the commands that print it; else <!-- not run: ' +
    'REASON --> stands above it'
  ])
  t.match(faults('~~~sh', 'x', '~~~', 'text', '~~~', 'y', '~~~'), [/^p\.md:5: /])
  t.match(faults('~~~sh', 'x', '~~~', '~~~', 'y', '~~~', '~~~', 'z', '~~~'), [/^p\.md:7: /])
  t.same(faults('~~~ts', 'x', '~~~'), [
    'p.md:1: blocks of ts are not run; else <!-- not run: REASON --> stands above it'
  ])
  t.same(faults('<!-- not run: -->', '~~~sh', 'x', '~~~'), ['p.md:2: "not run" wants a reason'])
  t.same(faults('<!-- not run: a type, not a program -->', '~~~ts', 'x', '~~~'), [])
})

t.test('a block that may never return is a fault', async t => {
  t.match(faults('~~~sh', 'until curl -s http://127.0.0.1:8080; do sleep 1; done', '~~~'), [
    /^p\.md:1: a loop without end/
  ])
  for (const command of ['wait', 'kill $! && wait', 'wait; echo', 'wait | cat']) {
    t.match(faults('~~~sh', command, '~~~'), [/^p\.md:1: waits for every job/], command)
  }
  t.same(faults('~~~sh', 'kill $job; wait $job', 'curl --retry 9 --retry-connrefused http://127.0.0.1:8080', '~~~'), [])
})

t.test('output matches exactly, except long numbers, trailing blanks and dots', async t => {
  const matches = (printed: string, text: string, numbersDiffer = false): boolean =>
    matchesOutput(printed, { text, numbersDiffer })
  t.ok(matches('HTTP/1.1 200 OK\r\nversion: 20104\r\n\n', 'HTTP/1.1 200 OK\nversion: 99999999'))
  t.notOk(matches('HTTP/1.1 404 Not Found\n', 'HTTP/1.1 200 OK'))
  t.notOk(matches('hit\nmore\n', 'hit'))
  t.notOk(matches('hit\n', 'hit\nmore'))
  t.notOk(matches('0x1234ab\n', '0x5678ab'), 'digits in a word are no number')
  t.ok(matches('975 25 stored\n', '1000 9 stored', true))
  t.notOk(matches('975 25 stored\n', '1000 9 stored'))
  t.ok(matches('a long line b\nc\nd\ne\n', 'a ... b\n...\ne'))
  t.notOk(matches('a b\n', 'a ... c'))
  t.ok(matches('', ''))
  t.notOk(matches('x.y', 'x+y'))
})

t.test('a server command is distinguished from one that ends by itself', async t => {
  for (
    const command of [
      'npm start',
      'npm start &',
      'npm start -- --upstream http://127.0.0.1:8081',
      'varve serve --workers 2',
      'varve --redis redis://h',
      'node dist/cli.js',
      'VARVE_WORKERS=2 npm start',
      'varve sandbox --seed 7'
    ]
  ) t.ok(isServerCommand(command), command)
  for (
    const command of [
      'varve check FILE',
      'varve --help',
      'varve serve --help',
      'node dist/cli.js explain GET /v1',
      'curl http://127.0.0.1:8080',
      'npm test'
    ]
  ) t.notOk(isServerCommand(command), command)
  t.same(['varve sandbox', 'varve serve', 'varve'].map(isSandboxCommand), [true, false, false])
})

t.test('pages name the usual ports, and run on free ones', async t => {
  const places = await PagePorts.find()
  const ports = [8080, 9464, 8081, 6379] as const
  t.equal(new Set(ports.map(port => places.port(port))).size, 4)
  const text = 'curl http://127.0.0.1:8080/v1 redis://localhost:6379 http://10.0.0.1:8080 127.0.0.1:80801'
  t.equal(
    places.withFreePorts(text),
    `curl http://127.0.0.1:${places.port(8080)}/v1 redis://127.0.0.1:${
      places.port(6379)
    } http://10.0.0.1:8080 127.0.0.1:80801`
  )
  t.equal(places.withDocumentedPorts(places.withFreePorts('at 127.0.0.1:9464')), 'at 127.0.0.1:9464')
})

t.test('a configuration of a page is checked with its variables and files in place', async t => {
  const { env, file } = pageConfig(
    // eslint-disable-next-line no-template-curly-in-string
    'a: "${KEY}"\nb: ${R_URL}\nc: "${file:/run/x}"\ncaFile: /etc/ca.pem\n',
    join(t.testdir(), 'in')
  )
  t.same(env, { KEY: 'k-KEY', R_URL: 'redis://127.0.0.1:1', VARVE_SANDBOX: '1' })
  t.match(
    readFileSync(file, 'utf8'),
    /^a: "\$\{KEY\}"\nb: \$\{R_URL\}\nc: "\$\{file:\/\S+secret\}"\ncaFile: \/\S+cert\.pem\n$/
  )
})
