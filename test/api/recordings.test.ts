import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { endpoints } from '../../src/api/endpoints.js'
import { readPosition } from '../../src/api/position.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { classOf, keysOf, targetOf } from '../../src/api/read.js'
import { impossibleReason, judge, possibleReasonsOf } from '../../src/api/store-verdict.js'
import { readTouchedKeys } from '../../src/follow/transaction-digest.js'
import { startSandbox } from '../../sandbox/sandbox.js'
import { strictChecker } from '../support/openapi.js'
import { type ProgramResult, runProgram } from '../support/run-program.js'
import { listening } from '../support/stub-upstream.js'

const root = join(import.meta.dirname, '../..')
const checker = strictChecker(parse(readFileSync(join(root, 'docs/openapi.yaml'), 'utf8')))

interface Bytes {
  readonly body?: string
  readonly base64?: string
}
interface Recorded extends Bytes {
  readonly request: Bytes & { method: string, path: string, accept: string, contentType?: string }
  readonly status: number
  readonly headers: Record<string, string>
  readonly redacted?: true
}

async function record (args: readonly string[], authorization = ''): Promise<ProgramResult> {
  const env = { ...process.env, RECORD_AUTHORIZATION: authorization }
  return await runProgram(process.execPath, [join(root, 'scripts/record-node.js'), '--pause', '0', ...args], { env })
}

const linesOf = (file: string): Recorded[] =>
  readFileSync(file, 'utf8').trim().split('\n').slice(1).map(line => JSON.parse(line) as Recorded)
const bytesOf = ({ body, base64 }: Bytes): Buffer =>
  base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(base64, 'base64')

/** Replays a recording against parsing, judging, keys, following and the sandbox's forms; returns what is proven. */
async function replay (t: Test, file: string): Promise<Set<string>> {
  const proven = new Set<string>()
  const [names, bodies] = [new Map<string, string>(), new Map<string, Buffer>()]
  for (const line of linesOf(file).filter(({ body, base64 }) => (body ?? base64) !== undefined)) {
    const { request, status, headers } = line
    const what = `${request.method} ${request.path} ${request.accept} ${request.body} ${status}`
    const body = bytesOf(line)
    const match = matchEndpoint(request.path, request.method)
    if (match === undefined || (status >= 400 && body.includes('web_framework_error'))) continue
    const read = readRequest(match, { ...request, contentType: request.contentType, body: bytesOf(request) })
    const { name, keyedBy, dependsOn } = read.endpoint

    const stamped = readPosition(headers)
    const response = { status, headers, body, rest: undefined, isFramed: true, stamped, release: undefined }
    t.equal(impossibleReason(read, response), undefined, what)
    const { notStored } = judge(read, response, { eventsTtlSeconds: 1 })
    const allowed = notStored === undefined || possibleReasonsOf(read.endpoint).includes(notStored)
    t.ok(classOf(read) === 'moving' ? notStored : allowed, `${classOf(read)} ${notStored}: ${what}`)
    // Pruning trails the stamped oldest version (docs/node-behaviour.md, "Pruning: 410").
    const isInWindow = (read.ledgerVersion ?? -1n) >= (stamped?.position.oldest.version ?? 0n)
    if (status === 200 && isInWindow) t.equal(notStored, undefined, `state: ${what}`)

    const keys = keysOf(read, { name: 'space' })
    const key = status === 200 ? keys.value : keys.text
    const sent = JSON.stringify([targetOf(read), read.accept, status === 200 ? read.body?.canonical : read.body?.sent])
    // One entry serves all versions of a block.
    if (read.height === undefined) t.equal(names.get(key) ?? sent, sent, `key: ${what}`)
    if (names.has(key)) proven.add('equal reads')
    names.set(key, sent)
    if (notStored === undefined) t.ok(body.equals(bodies.get(key) ?? body), `equal reads: ${what}`)
    if (notStored === undefined) bodies.set(key, body)

    if (status !== 200 || line.redacted) continue
    if (notStored === undefined || keyedBy === 'moving') proven.add(name)
    if (dependsOn !== undefined) t.not(dependsOn(read)?.length, 0, `follow: ${what}`)
    if (name === 'transactions' && read.accept === 'json') t.ok(await readTouchedKeys(body), `tail: ${what}`)
    const complaints = checker.complaints(name, { status, headers, body })
    t.same(complaints.filter(text => !text.startsWith('header')), [], `form: ${what}`)
  }
  return proven
}

t.test('a recording of the sandbox parses, is judged and keyed as documented, and has its forms', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(sandbox.close)
  const file = join(t.testdir(), 'recording.jsonl')
  const { code, stderr } = await record([sandbox.url, '--out', file])
  t.equal(code, 0, stderr)
  const text = readFileSync(file, 'utf8')
  t.ok(text.startsWith('{"recording":1,') && text.includes(`"release":"${sandbox.ledger.release}","chainId":4}`))
  t.notOk(text.includes(new URL(sandbox.url).host))
  const statuses = linesOf(file).map(({ status }) => status)
  t.same([...new Set(statuses)].sort(), [200, 400, 403, 404, 410, 500])
  t.ok(statuses.length >= 180 && statuses.length <= 260, `${statuses.length} reads`)
  const proven = await replay(t, file)
  t.ok(proven.has('equal reads'))
  // Node info names its peer, so its body is redacted.
  t.same(endpoints.filter(({ name }) => !proven.has(name)).map(({ name }) => name), ['info'])
})

const folder = join(root, 'test/cases/recordings')
for (const name of existsSync(folder) ? readdirSync(folder) : []) {
  t.test(`${name} parses, is judged and keyed as documented, and has forms of the sandbox`, async t => {
    await replay(t, join(folder, name))
  })
}

t.test('a recording has no credentials, URLs or machines, even if a gateway echoes them', async t => {
  const seen: string[] = []
  const index = JSON.stringify({ chain_id: 1, ledger_version: '900', block_height: '90', git_hash: 'abc' })
  const gateway = createServer(({ url, headers }, response) => {
    const echo = `${url} ${JSON.stringify(headers)} https://10.1.2.3/v1 node-7.internal.example 10.1.2.4:80 fe80::1:2`
    const status = [200, 429, 401, 401, 401][seen.push(echo) - 1] ?? 429
    response.writeHead(status, { 'retry-after': seen.length === 2 ? '0' : '3600', 'x-served-by': '10.1.2.5' })
    response.end(status === 200 ? index : echo)
  })
  const { host } = new URL(await listening(t, gateway))
  const file = join(t.testdir(), 'recording.jsonl')
  const url = `http://${host}/path%2Dkey/v1?apikey=query%20key`
  const { code, stderr } = await record([url, '--out', file, '--header', 'x-api-key: header-key'], 'Bearer env-key')
  t.equal(code, 0, stderr)
  const user = await record([url.replace('//', '//user:pass%20word@'), '--out', `${file}2`])
  t.equal(user.code, 1, 'a gateway that limits the index is no node')
  const basic = Buffer.from('user:pass word').toString('base64')
  for (const secret of ['path%2Dkey', 'query%20key', 'header-key', 'env-key']) t.ok(seen[1]?.includes(secret), secret)
  t.ok(seen.at(-1)?.includes(basic))
  const text = readFileSync(file, 'utf8')
  const secrets = ['path%2Dkey', 'path-key', 'query%20key', 'query key', 'header-key', 'env-key']
  for (const secret of [...secrets, host, '10.1.2', 'internal', 'fe80']) t.notOk(text.includes(secret), secret)
  t.match(text, 'accept-encoding', 'the rest of an echo is recorded')
  t.ok(seen.length > 5 && seen.length < 10, 'a long Retry-After stops it, a short one does not')
  t.match(stderr, 'then stopped')
})
