import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runCommand } from '../../cli/command.js'
import { sendRequest, tableItemLookup } from '../../support/client.js'
import { startReplay, type RunningReplay } from '../../support/recorder-and-replay.js'

const first = { form: 'varve-recording', version: 2, made: '2026-11-22T10:00:00.000Z', by: 'varve 0.1.0' }
const line = (
  target: string,
  body: string,
  more: { request?: object, response?: object, pair?: object } = {}
): object => ({
  at: 0,
  head: 0,
  took: 0,
  request: { method: 'GET', target, headers: [], ...more.request },
  response: { status: 200, headers: [['content-length', '1']], body, ...more.response },
  ...more.pair
})

function fileOf (t: Test, lines: readonly object[], end = '\n'): string {
  const file = join(t.testdir(), 'report.jsonl')
  writeFileSync(file, lines.map(one => JSON.stringify(one)).join('\n') + end)
  return file
}

async function startReplayOf (
  t: Test,
  lines: readonly object[],
  flags: readonly string[] = []
): Promise<RunningReplay> {
  return await startReplay(t, fileOf(t, [first, ...lines]), flags)
}

t.test('several responses to one request are returned in order, and the last one for ever', async t => {
  const replay = await startReplayOf(t, ['1', '2', '3'].map(body => line('/v1', body)))
  const bodies = []
  for (let nth = 0; nth < 5; nth++) bodies.push((await sendRequest(replay.url, '/v1')).body)
  t.same(bodies, ['1', '2', '3', '3', '3'])
})

t.test('the identical request is matched first, else one with the same meaning', async t => {
  const accept = (text: string): object => ({ request: { headers: [['accept', text]] } })
  const table = (body: string): object => ({
    request: { method: 'POST', headers: [['content-type', 'application/json']], body }
  })
  const replay = await startReplayOf(t, [
    line('/v1/accounts/0x1/modules?ledger_version=5', 'canonical'),
    line('/v1/accounts/01/modules?ledger_version=5', 'odd'),
    line('/v1/blocks/by_version/7', 'bcs', accept('application/x-bcs')),
    line('/v1/blocks/by_version/7', 'json', accept('application/json')),
    line('/v1/blocks/by_version/7', 'nothing new', {
      request: { headers: [['accept', 'application/json'], ['if-none-match', '"x"']] },
      response: { status: 304, body: undefined }
    }),
    line('/v1/blocks/by_version/8', 'for that origin', {
      request: { headers: [['accept', 'application/json'], ['origin', 'https://a']] }
    }),
    line('/v1/tables/0x5/item', 'item', table('{"key_type":"u64","value_type":"u64","key":"7"}')),
    line('/v1/view', 'viewed', table('{"function":"0x1::a::b"}')),
    line('/v1/other?b=1&a=2', 'other')
  ])
  const cases: Array<[string, Parameters<typeof sendRequest>[2], string | number]> = [
    ['/v1/accounts/01/modules?ledger_version=5', {}, 'odd'],
    ['/v1/accounts/0x1/modules?ledger_version=5', {}, 'canonical'],
    [
      '/v1/accounts/0x0000000000000000000000000000000000000000000000000000000000000001/modules?ledger_version=%2B05',
      {},
      'canonical'
    ],
    ['/v1/accounts/0x1/modules?ledger_version=6', {}, 404],
    ['/v1/blocks/by_version/07', { headers: { accept: '*/*' } }, 'json'],
    ['/v1/blocks/by_version/7', { headers: { accept: 'application/x-bcs, application/json' } }, 'bcs'],
    ['/v1/blocks/by_version/7', { headers: { accept: 'application/json', 'if-none-match': '"x"' } }, 304],
    ['/v1/blocks/by_version/7', { headers: { accept: 'application/json', 'if-none-match': '"y"' } }, 'json'],
    ['/v1/blocks/by_version/8', { headers: { accept: 'application/json', origin: 'https://a' } }, 'for that origin'],
    ['/v1/blocks/by_version/8', {}, 'for that origin'],
    ['/v1/blocks/by_version/7', { method: 'HEAD' }, 404],
    ['/v1/tables/0x05/item', tableItemLookup('u64', '"07"'), 'item'],
    ['/v1/tables/0x05/item', tableItemLookup('u64', '"8"'), 404],
    ['/v1/view', { body: '{"function":"0x1::a::b"}' }, 'viewed'],
    ['/v1/view', { body: '{"function": "0x1::a::b"}' }, 404],
    ['/v1/other?b=1&a=2', {}, 'other'],
    ['/v1/other?a=2&b=1', {}, 404],
    ['/v1/accounts/0xzz/modules', {}, 404],
    ['http://any.example/v1/other?b=1&a=2', {}, 'other']
  ]
  for (const [target, options, expected] of cases) {
    const { status, body } = await sendRequest(replay.url, target, options)
    t.equal(typeof expected === 'number' ? status : body, expected, target)
  }
})

t.test('a request that is not recorded gets a 404 in node shape, is reported once, and counted', async t => {
  const replay = await startReplayOf(t, [line('/v1/a', '1'), line('/v1/never', '1')])
  t.match(await sendRequest(replay.url, '/v1/a'), { status: 200 })
  for (let nth = 0; nth < 2; nth++) {
    t.match(await sendRequest(replay.url, '/v1/b?api_key=s3cret'), {
      status: 404,
      headers: { 'content-type': 'application/json' },
      body: '{"message":"varve replay cannot answer GET /v1/b?api_key=***: it is not in the ' +
        'recording","error_code":"web_framework_error","vm_error_code":null}'
    })
  }
  for (let nth = 0; nth < 30; nth++) await sendRequest(replay.url, `/v1/c${nth}`)
  t.match(
    await sendRequest(replay.url, '/v1/a', { body: Buffer.alloc(65 * 1024 * 1024) }),
    { status: 404 },
    'at any length'
  )
  t.equal(await replay.stop(), 0)
  t.equal(
    replay.command.err(),
    `  not answered: GET /v1/b?api_key=***: it is not in the recording\n${
      Array.from({ length: 19 }, (_, nth) => `  not answered: GET /v1/c${nth}: it is not in the recording\n`).join('')
    }  ... and more like these, which are only counted\n`
  )
  t.match(
    replay.command.out(),
    /^varve replay: http:\/\/127\.0\.0\.1:\d+ serves the responses of .*report\.jsonl\n {2}2 responses to 2 requests, recorded by varve 0\.1\.0 from 2026-11-22T10:00:00\.000Z on\n[^]*\n34 requests: 1 answered, 33 not in the recording; 1 of its responses was never requested\n$/
  )
})

t.test('a torn last line is skipped with a notice; any other fault names its line and stops', async t => {
  const torn = await startReplay(t, fileOf(t, [first, line('/v1/a', '1')], '\n{"at":1,"request":{"meth'))
  t.match(await sendRequest(torn.url, '/v1/a'), { status: 200 })
  t.match(torn.command.out(), /\n {2}1 response to 1 request,[^\n]*\n {2}its last line is incomplete and ignored\n/)
  t.match(await sendRequest((await startReplay(t, fileOf(t, [first, line('/v1/a', '\u2028')], ''))).url, '/v1/a'), {
    body: '\u2028'
  }, 'a whole line without its newline is valid')

  const good = line('/v1/a', '1')
  const wrong: Array<[readonly object[] | string, ...string[]]> = [
    ['', 'line 1: expected the first line of a recording, and the file is empty'],
    ['hello\n', 'line 1: expected a line of JSON'],
    ['hello', 'line 1: expected a line of JSON'],
    [[[]], 'line 1: expected the first line of a recording'],
    [[good], 'line 1: form: expected "varve-recording"'],
    [
      [{ ...first, version: 1 }, good],
      'line 1: version: expected 2: another release of varve made this file, record it again'
    ],
    [[{ ...first, made: 'today' }], 'line 1: made: expected a time such as 2026-11-22T10:00:00.000Z'],
    [`${JSON.stringify(first)}\n\n${JSON.stringify(good)}\n`, 'line 2: expected a line of JSON'],
    [[first, { ...good, tok: 1 }], 'line 2: tok: unknown member'],
    [[first, good, line('/v1', '', { response: { body: 1 } })], 'line 3: response.body: expected a text'],
    [[first, line('v1', '')], 'line 2: request.target: expected a target from / on, such as /v1'],
    [
      [first, line('/v1', '', { request: { method: 'get' } })],
      'line 2: request.method: expected a method, such as GET'
    ],
    [
      [first, line('/v1', '', { request: { headers: { a: 'b' } } })],
      'line 2: request.headers: expected a list of header lines, each ["name", "value"]'
    ],
    [[first, line('/v1', '', { response: { base64: 'AA==' } })], 'line 2: expected one of body, base64 and leftOut'],
    [
      [first, line('/v1', '', { response: { body: undefined, base64: '?' } })],
      'line 2: response.base64: expected base64'
    ],
    [
      [first, line('/v1', '', { pair: { took: 'long' } }), good, line('x', '')],
      'line 2: took: expected a number of milliseconds',
      'line 4: request.target: expected a target from / on, such as /v1'
    ]
  ]
  const file = join(t.testdir(), 'wrong.jsonl')
  for (const [lines, ...mistakes] of wrong) {
    writeFileSync(file, typeof lines === 'string' ? lines : lines.map(one => `${JSON.stringify(one)}\n`).join(''))
    t.same(await runCommand(t, ['replay', file, '--listen', '127.0.0.1:0']), {
      code: 2,
      out: '',
      err: `varve: ${file} is not a recording that varve replay can read:\n${
        mistakes.map(one => `  ${one}\n`).join('')
      }`
    })
  }
  writeFileSync(file, `${JSON.stringify(first)}\n${'x\n'.repeat(50)}`)
  t.equal(
    (await runCommand(t, ['replay', file])).err.split('\n').length,
    12,
    'another file reports at most ten faults'
  )
})
