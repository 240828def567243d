import { spawn } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

// Replaces the system resolver: a file gives addresses, an error code, or no response at all.
const preload = `
const dns = require('node:dns')
const { readFileSync } = require('node:fs')
const lookup = dns.lookup
dns.lookup = (hostname, options, callback) => {
  const result = JSON.parse(readFileSync(process.env.TEST_NAMES, 'utf8'))[hostname]
  if (result === undefined) lookup(hostname, options, callback)
  else if (Array.isArray(result)) setImmediate(callback, null, result.map(address => ({ address, family: 4 })))
  else if (result !== 'hangs') setImmediate(callback, Object.assign(new Error(result), { code: result }))
}
require('node:module').syncBuiltinESMExports()
`

/** Starts a varve process whose host names resolve as the test says. */
async function program (
  t: Test,
  names: object,
  config: string
): Promise<{ url: string, adminUrl: string, setAddresses: (names: object) => void }> {
  const dir = t.testdir({ 'preload.cjs': preload, 'names.json': JSON.stringify(names), 'v.yaml': config })
  const file = join(dir, 'names.json')
  const child = spawn(process.execPath, [
    join(import.meta.dirname, '../../dist/cli.js'),
    '--config',
    join(dir, 'v.yaml'),
    '--listen',
    '127.0.0.1:0',
    '--admin',
    '127.0.0.1:0'
  ], {
    env: { ...process.env, TEST_NAMES: file, NODE_OPTIONS: `--require ${join(dir, 'preload.cjs')}` },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = new Promise(resolve => child.once('exit', resolve))
  t.teardown(async () => {
    child.kill()
    await ended
  })
  for await (const line of createInterface(child.stdout)) {
    const { msg, url = '', adminUrl = '' } = line.startsWith('{')
      ? JSON.parse(line) as { msg: string, url?: string, adminUrl?: string }
      : { msg: '' }
    if (msg !== 'listening') continue
    child.stdout.resume()
    return {
      url,
      adminUrl,
      setAddresses: next => {
        writeFileSync(`${file}.next`, JSON.stringify(next))
        renameSync(`${file}.next`, file)
      }
    }
  }
  throw new Error('it has ended')
}

for (const workers of [1, 2]) {
  t.test(`${workers === 1 ? 'one process' : 'a worker pool'} starts before DNS, and reads from upstreams that resolve${workers === 1 ? '' : ' or move'}`, async t => {
    const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
    const { port } = new URL(upstream.url)
    const moved = await startSandboxNode(t, { prunedBlocks: 0, host: '127.0.0.2', port: Number(port) })
    const config =
      `workers: ${workers}\nhead: { pollMs: 200 }\naudit: { share: 0 }\nupstreams:\n  - { name: one, url: ` +
      `"http://one.example:${port}", timeoutMs: 5000 }\n  - { name: two, url: "http://two.example:${port}", ` +
      'timeoutMs: 1000 }\n'
    const { url, adminUrl, setAddresses } = await program(
      t,
      { 'one.example': 'ENOTFOUND', 'two.example': 'hangs' },
      config
    )
    const readiness = async (): Promise<string> => (await sendRequest(adminUrl, '/readyz')).body
    const read = async (version: number): Promise<number> => (await sendRequest(url, modules(version))).status
    await until(
      async () =>
        /one is down: DNS lookup (?:of \S+ )?failed/.test(await readiness()) &&
        /two is down: DNS lookup (?:of \S+ )?failed/.test(await readiness()),
      'readiness reports a reason for each upstream'
    )
    if (workers === 1) {
      t.match(
        await readiness(),
        /"one is down: DNS lookup of one\.example failed: ENOTFOUND","two is down: DNS lookup of two\.example failed: ETIMEOUT"/
      )
    }
    t.equal(await read(2000), 503)

    setAddresses({ 'one.example': ['127.0.0.1'], 'two.example': 'hangs' })
    const eachReads = async (from: number): Promise<boolean> =>
      (await Promise.all(Array.from({ length: 8 }, async (_, at) => await read(from + at)))).every(status =>
        status === 200
      )
    await until(async () => await eachReads(2000), 'the first host name resolves')
    await until(
      async () => /"degraded":\["two is down: /.test(await readiness()),
      'readiness reports the second upstream alone'
    )
    t.match((await sendRequest(adminUrl, '/metrics')).body, /varve_upstream_requests_total\{[^}]*status="unresolved"\}/)

    setAddresses({ 'one.example': 'EAI_AGAIN', 'two.example': 'hangs' })
    t.ok(await eachReads(2010), 'the last known addresses suffice')

    if (workers > 1) {
      setAddresses({ 'one.example': ['127.0.0.2'], 'two.example': 'hangs' })
      moved.requests.reset()
      let [version, failed] = [2100, 0]
      await until(
        async () => {
          // Names are resolved again each 15 s, and reads cost processor time.
          await pause(500)
          upstream.requests.reset()
          for (let nth = 0; nth < 4; nth++) if (await read(version++) !== 200) failed++
          return moved.requests.countFor('account_modules') > 0 && upstream.requests.total === 0
        },
        'reads reach the upstream at its new address',
        60_000
      )
      t.equal(failed, 0, 'and no read fails')
    }

    setAddresses({ 'one.example': 'ENOTFOUND', 'two.example': 'ENOTFOUND' })
    // Another worker than the one that has it may be asked first.
    await until(async () => await read(2001) === 200, 'cached history needs no DNS')
    t.equal(await read(2500), 200, 'and open connections stay in use')
  })
}
