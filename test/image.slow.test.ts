import { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from './support/client.js'
import {
  buildImage,
  commandIn,
  commandOf,
  lacksFreshRoot,
  lastInstruction,
  pairsOf,
  readStages,
  startReadOnly
} from './support/deploy/image.js'
import { checkoutRoot, readCheckout } from './support/deploy/checkout.js'
import { freePort } from './support/free-port.js'
import { type ProgramResult, runProgram } from './support/run-program.js'
import { until } from './support/until.js'

// Fails if the value is missing: an engine would have it at once, and the test takes it from its run.
const whole = <T>(what: T | undefined, name: string): T => {
  if (what === undefined) throw new Error(`there is no ${name}`)
  return what
}

const reason = await lacksFreshRoot()

t.test(
  'the image of the Dockerfile has the package, runs unprivileged, is healthy, and drains',
  { timeout: 600_000, skip: reason },
  async t => {
    const stages = readStages(readCheckout('Dockerfile'))
    const last = whole(stages.at(-1), 'stage')
    const dir = mkdtempSync(join(tmpdir(), 'varve-image-'))
    t.teardown(() => {
      rmSync(dir, { recursive: true, force: true })
    })
    await runProgram('chmod', ['755', dir])
    const image = await buildImage(stages, dir)
    await containsPackageFiles(t, join(image, 'app'))
    t.same(readdirSync(join(image, 'usr/local/bin')).sort(), ['node', 'varve'], 'no npm, nor anything else')
    const unreadable = await runProgram('find', [join(image, 'app'), join(image, 'usr/local'), '-not', '-perm', '-a+r'])
    t.equal(unreadable.stdout, '', 'every user may read all of it')

    const [port, adminPort] = [await freePort(), await freePort()]
    const env = {
      ...pairsOf(lastInstruction(last, 'ENV')),
      VARVE_SANDBOX: '1',
      VARVE_LISTEN: `127.0.0.1:${port}`,
      VARVE_ADMIN: `0.0.0.0:${adminPort}`
    }
    const health = async (): Promise<ProgramResult> =>
      await commandIn(image, commandOf(lastInstruction(last, 'HEALTHCHECK')), env)
    t.match(await health(), { code: 1, stdout: '', stderr: '' }, 'varve is not up yet')
    const command = [...commandOf(lastInstruction(last, 'ENTRYPOINT')), ...commandOf(lastInstruction(last, 'CMD'))]
    const child = startReadOnly(image, lastInstruction(last, 'USER'), command, env)
    t.teardown(() => {
      child.kill('SIGKILL')
    })
    const pid = await firstProcessOf(t, child)
    const [reads, admin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`]
    await until(async () => (await sendRequest(admin, '/readyz')).status === 200, 'ready')
    t.match(await health(), { code: 0, stdout: '', stderr: '' })
    t.match(readFileSync(`/proc/${pid}/maps`, 'utf8'), '/usr/local/lib/libjemalloc.so.2', 'jemalloc is in use')

    const traffic = await runProgram(process.execPath, [
      join(checkoutRoot, 'deploy/compose/traffic.mjs'),
      reads,
      admin,
      '5',
      '40'
    ])
    t.match(traffic, {
      code: 0,
      stdout: /traffic: 40 reads a second for 5 s\ntraffic: \d+ reads, 0 failed\n/,
      stderr: ''
    })
    const { body } = await sendRequest(admin, '/metrics')
    for (const endpoint of ['table_item', 'account_modules', 'account_events', 'block_by_version']) {
      for (const outcome of ['hit_memory', 'miss']) {
        t.match(
          body,
          new RegExp(`^varve_requests_total\\{endpoint="${endpoint}",outcome="${outcome}",status="200"\\} [1-9]`, 'm'),
          `${endpoint} ${outcome}`
        )
      }
    }
    t.notMatch(body, /^varve_requests_total\{.*status="[45]/m, 'no read of it is an error')

    process.kill(pid, lastInstruction(last, 'STOPSIGNAL') as NodeJS.Signals)
    const [code] = await once(child, 'close') as [number | null]
    t.equal(code, 0, 'varve has drained and exited')
    t.match(await health(), { code: 1 })
  }
)

/** Waits for the first process of the image, and checks its user, number and root. */
async function firstProcessOf (t: Test, child: ChildProcess): Promise<number> {
  const outer = whole(child.pid, 'process')
  const children = `/proc/${outer}/task/${outer}/children`
  await until(() => readFileSync(children, 'utf8').trim() !== '', 'the first process is there')
  const pid = Number(readFileSync(children, 'utf8').trim())
  t.teardown(() => {
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL')
  })
  await until(
    () => /^Uid:\s+1000\s+1000\s+1000\s+1000$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')),
    'varve runs as an unprivileged user'
  )
  t.match(readFileSync(`/proc/${pid}/status`, 'utf8'), /^NSpid:\s+\d+(?:\s+\d+)*\s+1$/m, 'and the first process')
  const [, options = ''] = /^.* \/ (\S+)/m.exec(readFileSync(`/proc/${pid}/mountinfo`, 'utf8')) ?? []
  t.match(options, /^ro\b/, 'its root is read-only')
  return pid
}

async function containsPackageFiles (t: Test, app: string): Promise<void> {
  const { code, stdout, stderr } = await runProgram('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: checkoutRoot
  })
  t.equal(code, 0, stderr)
  const [{ files } = { files: [] }] = JSON.parse(stdout) as Array<{ files: Array<{ path: string }> }>
  t.same(filesBelow(app).filter(path => !path.startsWith('node_modules/')), files.map(({ path }) => path).sort())
  const { packages } = JSON.parse(readCheckout('package-lock.json')) as {
    packages: Record<string, { dev?: boolean, devOptional?: boolean }>
  }
  const atRunTime = Object.entries(packages).filter(([path, { dev, devOptional }]) =>
    path !== '' && dev !== true && devOptional !== true
  ).map(([path]) => path)
  const brought = filesBelow(app).filter(path => path.startsWith('node_modules/') && path.endsWith('/package.json'))
    .map(path => path.slice(0, -'/package.json'.length)).filter(path => packages[path] !== undefined).sort()
  t.same(brought, atRunTime.sort(), 'nothing that only development needs')
}

function filesBelow (dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(path =>
    !lstatSync(join(dir, path)).isDirectory()
  ).sort()
}
