import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseWarmRequest } from '../../src/cli/warm-input.js'

const target = '/v1/blocks/by_version/601'

t.test('a path is a GET, and a JSON request has its method, media type and exact body', async t => {
  const read = { method: 'GET', target, body: undefined, accept: undefined }
  for (const line of [target, ` ${target}\r`, `{"url":"${target}"}`, `{"method":"GET","url":"http://h${target}"}`]) {
    t.same(parseWarmRequest(line), read, line)
  }
  t.same(parseWarmRequest(`{"url":"${target}","accept":"application/x-bcs"}`), { ...read, accept: 'application/x-bcs' })
  const item = '/v1/tables/0x5eed/item?ledger_version=601'
  const body = '{"key_type":"u64","value_type":"u64","key":"18446744073709551615"}'
  const wanted = { method: 'POST', target: item, body, accept: undefined }
  t.same(parseWarmRequest(`{"method":"POST","url":"${item}","body":${body}}`), wanted)
  t.same(parseWarmRequest(JSON.stringify({ method: 'POST', url: item, body })), wanted, 'a body in quotes')
  const view = '{"function":"0x1::a::b","type_arguments":[],"arguments":[18446744073709551615]}'
  t.match(parseWarmRequest(`{"method":"POST","url":"/v1/view?ledger_version=601","body":${view}}`), { body: view })
})

t.test('the command of docs/operations.md turns an nginx access log into paths without writes', async t => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8')
  const command = /^awk .*(?= access\.log \| varve warm -$)/m.exec(page)?.[0] ?? ''
  const line = (request: string): string =>
    `::1 - a user [22/Nov/2026:09:15:41 +0000] "${request}" 200 1 "-" "curl/8 \\x22GET / HTTP/1.1\\x22"\n`
  const log = [`GET ${target} HTTP/1.1`, 'POST /v1/transactions HTTP/1.1', '', 'GET', `GET ${target}?x=%22 HTTP/2.0`]
  const paths = execFileSync('sh', ['-c', command], { encoding: 'utf8', input: log.map(line).join('') })
  t.equal(paths, `${target}\n${target}?x=%22\n`)
})
