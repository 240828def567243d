import { execFileSync, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { purge, startNode, token } from '../support/disk-tier.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'
import { sendRequest } from '../support/client.js'
import { testFolder } from '../support/test-folder.js'

const shm = '/dev/shm'
const program = join(import.meta.dirname, '../../dist/cli.js')
const targets = [1500, 1501, 1502].map(version => `/v1/accounts/0x1/modules?ledger_version=${version}`)
const memoryHit = 'varve; hit; detail=memory'
const folders = (): string[] => readdirSync(shm).filter(name => name.startsWith(`varve-${process.pid}-`))
const skip = existsSync(shm) ? false : `${shm} does not exist here`

/** Reads on new connections, which the workers take in turn. */
async function readInAll (varve: Pick<TestVarve, 'get'>, target: string): Promise<unknown[]> {
  const how: unknown[] = []
  for (let nth = 0; nth < 5; nth++) how.push((await varve.get(target)).headers['cache-status'])
  return how
}

/** Starts a process of varve, in a mount namespace that a script prepares. */
async function startAlone (t: Test, url: string, maxMb: number, script = 'true'): Promise<{
  readonly child: ChildProcess,
  readonly log: Array<Record<string, unknown>>,
  readonly url: string,
  readonly adminUrl: string
}> {
  const config = join(testFolder(t), 'varve.json')
  writeFileSync(
    config,
    JSON.stringify({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0', token },
      upstreams: [{ name: 'node', url }],
      audit: { share: 0 },
      workers: 2,
      cache: { memory: { maxMb } }
    })
  )
  const command = [process.execPath, program, 'serve', '--config', config]
  const options: SpawnOptions = { stdio: ['ignore', 'pipe', 'inherit'], detached: true }
  const child = script === 'true'
    ? spawn(process.execPath, command.slice(1), options)
    : spawn('unshare', ['--mount', 'sh', '-c', `${script} && exec "$@"`, 'sh', ...command], options)
  t.teardown(() => child.kill('SIGKILL'))
  const log: Array<Record<string, unknown>> = []
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', line => {
    log.push(JSON.parse(line) as Record<string, unknown>)
  })
  await until(() => log.some(({ msg }) => msg === 'listening'), 'varve listens')
  const { url: ownUrl, adminUrl } = log.find(({ msg }) => msg === 'listening') as Record<'url' | 'adminUrl', string>
  return { child, log, url: ownUrl, adminUrl }
}

t.test('what one worker has fetched is a hit in memory at every other, and a purge reaches all', { skip }, async t => {
  const node = await startNode(t)
  const config = { workers: 2, log: { level: 'error' as const }, admin: { listen: '127.0.0.1:0', token } }
  const [varve, second] = [await varveAt(t, node.url, config), await startAlone(t, node.url, 24)]
  t.equal(folders().length, 1, 'another varve has its own')
  for (const name of folders()) t.equal(lstatSync(join(shm, name)).mode & 0o777, 0o700)
  for (const target of targets) {
    await until(
      async () => (await readInAll(varve, target)).every(how => how === memoryHit),
      'every worker has it'
    )
  }
  await until(
    async () => await varve.metric('varve_cache_entries{tier="shared"}') === targets.length,
    'each counts once'
  )
  t.equal(await varve.metric('varve_cache_writes_dropped_total{tier="shared"}'), 0)
  t.equal(await varve.metric('varve_cache_entries{tier="disk"}'), undefined)
  t.equal(
    await varve.metric('varve_requests_total{endpoint="account_modules",outcome="hit_disk",status="200"}'),
    undefined
  )
  const [target = ''] = targets
  node.requests.reset()
  t.equal(await purge(varve, { method: 'GET', url: target }), 200)
  t.not((await readInAll(varve, target))[0], memoryHit)
  t.ok(node.requests.countFor('account_modules') > 0)
  t.equal((await sendRequest(second.url, target)).status, 200)
  await varve.stop({ drainMs: 0 })
  t.same(folders(), [], 'nothing is left')
})

t.test('a kill and a start leave nothing of the killed one, and what others own', { skip }, async t => {
  const node = await startNode(t)
  const foreign = ['varve-999999999-1-00000000', 'varve-999999999-2-00000000'].map(name => join(shm, name))
  const [live = '', link = ''] = foreign
  t.teardown(() => {
    for (const path of foreign) rmSync(path, { recursive: true, force: true })
  })
  // The processes of another container have numbers of their own; this one is stopped.
  mkdirSync(live)
  const server = createServer(() => {}).listen(join(live, 'lock'))
  t.teardown(() => server.close())
  await once(server, 'listening')
  symlinkSync(testFolder(t), link)
  const foldersOf = ({ pid = 0 }: ChildProcess): string[] =>
    readdirSync(shm).filter(name => name.startsWith(`varve-${pid}-`))
  // The primary process alone, and all processes at once, which are a group.
  for (const sign of [1, -1]) {
    const { child } = await startAlone(t, node.url, 24)
    t.equal(foldersOf(child).length, 1)
    process.kill(sign * (child.pid ?? NaN), 'SIGKILL')
    await once(child, 'exit')
    const next = await startAlone(t, node.url, 24)
    t.same(foldersOf(child), [])
    t.ok(existsSync(live) && lstatSync(link).isSymbolicLink())
    next.child.kill('SIGTERM')
    await once(next.child, 'exit')
    t.same(foldersOf(next.child), [])
  }
})

const mounts = process.getuid?.() === 0 && isMountable() ? skip : 'this user may not mount'

function isMountable (): boolean {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', shm])
    return true
  } catch {
    return false
  }
}

t.test('where memory has too little room each worker has its own, and a warning says so', { skip: mounts }, async t => {
  const node = await startNode(t)
  for (
    const [script, reason] of [
      [`mount -t tmpfs -o size=64m tmpfs ${shm}`, '/dev/shm has 64 MB free'],
      // Bytes there would go to a disk.
      [`mount --bind '${testFolder(t)}' ${shm}`, '/dev/shm is not in memory']
    ] as const
  ) {
    const varve = await startAlone(t, node.url, 256, script)
    t.match(varve.log.find(({ neededMb }) => neededMb === 192), {
      reason,
      msg: /give it 192 MB \(shm_size in Compose, an emptyDir of medium Memory in Kubernetes\)/
    })
    t.equal((await sendRequest(varve.url, targets[0] as string)).status, 200)
  }
})

t.test('with a read-only root workers share their memory all the same', { skip: mounts }, async t => {
  const node = await startNode(t)
  const script = `mount -t tmpfs tmpfs ${shm} && mount -o remount,bind,ro / && ! touch /varve-writes 2>/dev/null`
  const { url } = await startAlone(t, node.url, 24, script)
  const get = async (target: string): ReturnType<typeof sendRequest> => await sendRequest(url, target)
  await until(
    async () => (await readInAll({ get }, targets[0] as string)).every(how => how === memoryHit),
    'every worker has it'
  )
})

t.test('memory that fills up behind us costs no response and no purge', { skip: mounts }, async t => {
  const node = await startNode(t)
  // The shell becomes varve, and its loop ends with it.
  const fill = `(while kill -0 $$ && ! ls ${shm}/varve-*/log/; do sleep 0.1; done; head -c 60m /dev/zero > ${shm}/full)`
  const varve = await startAlone(
    t,
    node.url,
    24,
    `mount -t tmpfs -o size=24m tmpfs ${shm} && { ${fill} >/dev/null 2>&1 & }`
  )
  for (let version = 1000; version < 1050; version++) {
    const { status } = await sendRequest(varve.url, `/v1/accounts/0x1/modules?ledger_version=${version}`)
    t.equal(status, 200)
  }
  t.equal(await purge(varve, { method: 'GET', url: targets[0] }), 200)
  t.equal(await purge(varve, { all: true }), 200)
})
