import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from './support/client.js'
import { commandOf, lastInstruction, pairsOf, readStages } from './support/deploy/dockerfile.js'
import { buildImage } from './support/deploy/build-image.js'
import { checkoutRoot, readCheckout } from './support/deploy/manifests.js'
import { freePort } from './support/free-port.js'
import { type ProgramResult, runProgram } from './support/run-npm.js'
import { until } from './support/until.js'

const isRoot = process.getuid?.() === 0
// Fails if the value is missing: an engine would have it at once, and the test takes it from its run.
const whole = <T>(what: T | undefined, name: string): T => {
  if (what === undefined) throw new Error(`there is no ${name}`)
  return what
}

t.test(
  'the image of the Dockerfile has the package, runs unprivileged, is healthy, and drains',
  { timeout: 300_000 },
  async t => {
    const stages = readStages(readCheckout('Dockerfile'))
    const last = whole(stages.at(-1), 'stage')
    const dir = mkdtempSync(join(tmpdir(), 'varve-image-'))
    t.teardown(() => {
      rmSync(dir, { recursive: true, force: true })
    })
    await runProgram('chmod', ['755', dir])
    const { image } = await buildImage(stages, dir)
    await containsPackageFiles(t, join(image, 'app'))
    t.same(readdirSync(join(image, 'usr/local/bin')).sort(), ['node', 'varve'], 'no npm, nor anything else')
    // Removes write permission as if root owned the files: the user of this test may own them.
    await runProgram('chmod', ['-R', 'a-w', image])
    t.teardown(async () => {
      await runProgram('chmod', ['-R', 'u+w', dir])
    })
    t.equal((await runProgram('find', [image, '-not', '-perm', '-a+r'])).stdout, '', 'every user may read all of it')

    const [port, adminPort] = [await freePort(), await freePort()]
    const env = {
      ...pairsOf(lastInstruction(last, 'ENV')),
      VARVE_SANDBOX: '1',
      VARVE_LISTEN: `127.0.0.1:${port}`,
      VARVE_ADMIN: `0.0.0.0:${adminPort}`,
      PATH: join(image, 'usr/local/bin')
    }
    const health = async (): Promise<ProgramResult> => {
      const [node = '', ...rest] = commandOf(lastInstruction(last, 'HEALTHCHECK'))
      return await runProgram(join(image, 'usr/local/bin', node), rest, { env })
    }
    t.match(await health(), { code: 1, stdout: '', stderr: '' }, 'varve is not up yet')
    const { child, pid } = await begun(t, commandsOf(last, image), lastInstruction(last, 'USER'), env)
    const [reads, admin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`]
    await until(async () => (await sendRequest(admin, '/readyz')).status === 200, 'ready')
    t.match(await health(), { code: 0, stdout: '', stderr: '' })

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

/** Returns ENTRYPOINT and CMD with the paths inside the image. */
function commandsOf (last: Parameters<typeof lastInstruction>[0], image: string): string[] {
  return [...commandOf(lastInstruction(last, 'ENTRYPOINT')), ...commandOf(lastInstruction(last, 'CMD'))].map((
    word,
    at
  ) => at === 0 ? join(image, 'usr/local/bin', word) : word.startsWith('/') ? join(image, word) : word)
}

/** Starts the command as the image's user and as the first process of its own namespace, if permitted. */
async function begun (
  t: Test,
  command: string[],
  user: string,
  env: Record<string, string>
): Promise<{ child: ChildProcess, pid: number }> {
  const [uid = '', gid = ''] = user.split(':')
  // Removes the test runner's NODE_OPTIONS, which would write where the image's user may not.
  const bare = ['env', '-u', 'NODE_OPTIONS']
  const alone = isRoot
    ? ['unshare', '--pid', '--fork', 'setpriv', '--reuid', uid, '--regid', gid, '--clear-groups', '--no-new-privs']
    : []
  const [program = '', ...rest] = [...bare, ...alone, ...command]
  const child = spawn(program, rest, {
    env: { ...env, PATH: `${env['PATH']}${delimiter}${process.env['PATH']}` },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'inherit']
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const outer = whole(child.pid, 'process')
  if (!isRoot) return { child, pid: outer }
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
  return { child, pid }
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
