import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type TestRequest, type TestResponse, sendRequest, tableItemLookup } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { killOnExit } from '../support/run-program.js'
import { blocksIn } from '../support/readme/code-blocks.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const page = 'docs/migrating.md'
const block =
  blocksIn(page, readFileSync(join(import.meta.dirname, '../..', page), 'utf8')).find(({ language }) =>
    language === 'nginx'
  )?.text ?? ''

/** nginx with the configuration of the page only. */
async function nginxBefore (t: Test, varve: TestVarve): Promise<string> {
  const port = await freePort()
  const location = block.replace('http://127.0.0.1:8080', varve.url)
  if (location === block) t.fail('the page forwards to another address')
  const home = t.testdir({
    'nginx.conf': `${
      process.getuid?.() === 0 ? 'user root;' : ''
    } daemon off; worker_processes 1; pid nginx.pid; events {}
      http {
        access_log off; client_body_temp_path temp/body; proxy_temp_path temp/proxy; fastcgi_temp_path temp/fastcgi; uwsgi_temp_path temp/uwsgi; scgi_temp_path temp/scgi;
        server { listen 127.0.0.1:${port}; ${location} }
      }`
  })
  mkdirSync(join(home, 'temp'))
  const child = spawn('nginx', ['-p', home, '-e', 'error.log', '-c', 'nginx.conf'], {
    stdio: ['ignore', 'ignore', 'inherit']
  })
  killOnExit(child, home)
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill()
    await ended
  })
  const url = `http://127.0.0.1:${port}`
  await until(async () => await sendRequest(url, '/').then(() => true, () => false), 'nginx takes connections')
  return url
}

async function stage (
  t: Test,
  change: Parameters<typeof varveAt>[2] = {}
): Promise<{ varve: TestVarve, url: string, before: (blocks: number) => bigint, oldest: bigint }> {
  const { url, ledger } = await startSandboxNode(t, { prunedBlocks: 5 })
  const varve = await varveAt(t, url, { trustProxy: ['loopback'], ...change })
  return {
    varve,
    url: await nginxBefore(t, varve),
    before: blocks => ledger.block(ledger.height - blocks).firstVersion,
    oldest: ledger.oldest.version
  }
}

/** Reads a target and makes its compressed form, which varve creates after a first hit has requested it. */
async function prepared (varve: TestVarve, target: string, request: TestRequest, coding: string): Promise<TestRequest> {
  const options = { ...request, headers: { ...request.headers, 'accept-encoding': coding } }
  const isReady = ({ status, bytes, headers }: TestResponse): boolean =>
    coding === 'identity' || status !== 200 || bytes.length < 256 || headers['content-encoding'] === coding
  await varve.get(target, options)
  await until(async () => isReady(await varve.get(target, options)), `${target} is there in ${coding}`)
  return options
}

t.test('the nginx set-up of docs/migrating.md changes no response and hides no header of varve', async t => {
  const { varve, url, before, oldest } = await stage(t)
  const version = before(3)
  const reads: Array<{ target: string, request?: TestRequest }> = [
    { target: `/v1/accounts/0x1/modules?ledger_version=${version}` },
    {
      target: `/v1/accounts/0x1/resource/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E?ledger_version=${version}`
    },
    { target: `/v1/blocks/by_version/${version}?with_transactions=true` },
    { target: '/v1/accounts/0x1/events/0x1%3A%3Ablock%3A%3ABlockResource/new_block_events?start=3&limit=2' },
    { target: `/v1/tables/0x1/item?ledger_version=${version}`, request: tableItemLookup('u64', '"5"') },
    { target: `/v1/blocks/by_version/${oldest - 1n}` },
    { target: '/v1/blocks/by_version/x' }
  ]
  for (const { target, request = {} } of reads) {
    for (const coding of ['identity', 'gzip', 'br']) {
      const options = await prepared(varve, target, request, coding)
      const [direct, behind] = [await varve.get(target, options), await sendRequest(url, target, options)]
      t.equal(behind.status, direct.status, target)
      t.ok(behind.bytes.equals(direct.bytes), `${target} in ${coding}, byte for byte`)
      for (
        const name of Object.keys(direct.headers).filter(name =>
          !['date', 'connection', 'keep-alive', 'server', 'x-request-id'].includes(name)
        )
      ) t.equal(behind.headers[name], direct.headers[name], `${target}: ${name}`)
    }
  }
  t.equal(
    await varve.metric('varve_upstream_requests_total{upstream="node",endpoint="block_by_version",status="200"}'),
    1,
    'all others are hits'
  )
})

t.test('through nginx revalidation works, for compressed forms too, and HEAD matches GET', async t => {
  const { varve, url, before } = await stage(t)
  const target = `/v1/accounts/0x1/modules?ledger_version=${before(3)}`
  const options = await prepared(varve, target, {}, 'gzip')
  const [plain, coded] = [await sendRequest(url, target), await sendRequest(url, target, options)]
  t.equal(coded.headers['content-encoding'], 'gzip')
  t.equal(gunzipSync(coded.bytes).toString(), plain.body)
  t.not(coded.headers.etag, plain.headers.etag)
  for (const { headers: { etag = '' } } of [plain, coded]) {
    t.equal(
      (await sendRequest(url, target, { headers: { 'accept-encoding': 'gzip', 'if-none-match': etag } })).status,
      304
    )
  }
  const { headers } = await sendRequest(url, target, { method: 'HEAD' })
  t.equal(headers.etag, plain.headers.etag)
  t.equal(headers['content-length'], plain.headers['content-length'])
})

t.test('clients behind nginx are limited by their own addresses and cannot choose another', async t => {
  const { url, before } = await stage(t, { limits: { client: { requestsPerSecond: 1, burst: 1 } } })
  const read = async (nth: number, localAddress: string, headers: Record<string, string> = {}): Promise<number> =>
    (await sendRequest(url, `/v1/blocks/by_version/${before(nth)}`, { localAddress, headers })).status
  t.same([await read(1, '127.0.0.2'), await read(2, '127.0.0.2')], [200, 429])
  t.equal(await read(2, '127.0.0.3'), 200, 'another client has a budget of its own')
  t.equal(
    await read(3, '127.0.0.2', { 'x-forwarded-for': '203.0.113.7' }),
    429,
    'its own header counts for nothing'
  )
})
