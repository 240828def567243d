import { spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync, readdirSync, readFileSync } from 'node:fs'
import { join, dirname } from 'node:path'
import { type ProgramResult, runProgram } from '../run-program.js'
import { checkoutRoot } from './checkout.js'

/** An instruction of a Dockerfile, with its lines joined. */
export interface Instruction {
  readonly name: string
  readonly text: string
}

/** Instructions from one FROM to the next. */
export interface BuildStage {
  readonly image: string
  readonly name: string | undefined
  readonly steps: readonly Instruction[]
}

/** Reads a Dockerfile of instructions and comments. */
export function readStages (dockerfile: string): BuildStage[] {
  const stages: Array<{ image: string, name: string | undefined, steps: Instruction[] }> = []
  const lines = dockerfile.split('\n').filter(line => !line.startsWith('#')).join('\n').replace(/\\\n\s*/g, '').split(
    '\n'
  ).filter(line => line !== '')
  for (const line of lines) {
    const [, name = '', text = ''] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (name === 'FROM') {
      const [, image = '', stage] = /^(?:--platform=\S+ )?(\S+)(?: AS (\S+))?$/.exec(text) ?? []
      stages.push({ image, name: stage, steps: [] })
    } else stages.at(-1)?.steps.push({ name, text: text.replace(/\s+/g, ' ') })
  }
  return stages
}

/** Returns the last instruction of a name. */
export function lastInstruction ({ steps }: BuildStage, name: string): string {
  return steps.filter(step => step.name === name).at(-1)?.text ?? ''
}

/** Returns the pairs of `KEY=value KEY="a value"` in ENV or LABEL. */
export function pairsOf (text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S+))/g)].map((
      [, key = '', quoted, plain]
    ) => [key, quoted ?? plain ?? ''])
  )
}

/** Returns the command of a HEALTHCHECK, ENTRYPOINT or CMD that runs without a shell. */
export function commandOf (text: string): string[] {
  return JSON.parse(text.slice(text.indexOf('['))) as string[]
}

/** Returns sources and target of a COPY. */
export function copyOf (text: string): { from: string | undefined, sources: string[], to: string } {
  const words = text.split(' ')
  const from = words.find(word => word.startsWith('--from='))?.slice('--from='.length)
  const paths = words.filter(word => !word.startsWith('--'))
  return { from, sources: paths.slice(0, -1), to: paths.at(-1) ?? '' }
}

/** Release of Debian that the Dockerfile's bases name. */
const release = 'trixie'
const ownAuthorities = process.env['NODE_EXTRA_CA_CERTS']
const authorities = '/etc/authorities-of-the-test.pem'
const path = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin'

/** Returns the reason why this machine cannot build a root of its own, or false. */
export async function lacksFreshRoot (): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'a root of its own needs the user root'
  const { code, stderr } = await runProgram('unshare', ['--mount', 'debootstrap', '--version'])
  return code === 0 ? false : `debootstrap does not run in a mount namespace: ${stderr.trim()}`
}

/** Installs Debian's smallest system, which the images of Debian and Node.js hold. */
export async function installDebian (root: string): Promise<void> {
  // In a namespace of its own, so that what debootstrap mounts is gone afterwards, whatever happens.
  await succeed('unshare', ['--mount', 'debootstrap', '--variant=minbase', release, root])
  // For the look-ups and the TLS of npm in RUN: some networks have a certificate authority of their own.
  cpSync('/etc/resolv.conf', join(root, 'etc/resolv.conf'), { dereference: true })
  if (ownAuthorities !== undefined) cpSync(ownAuthorities, join(root, authorities), { dereference: true })
}

/** Copies a root with its owners, links and devices. */
export async function copyRoot (from: string, to: string): Promise<void> {
  await succeed('cp', ['--archive', '--reflink=auto', from, to])
}

/** Adds Node.js, and npm if wanted, at the paths of the official image. */
export async function addNode (root: string, withNpm: boolean): Promise<void> {
  mkdirSync(join(root, 'usr/local/bin'), { recursive: true })
  cpSync(process.execPath, join(root, 'usr/local/bin/node'), { dereference: true })
  writeFileSync(join(root, 'usr/local/LICENSE'), 'the licence of Node.js\n')
  if (!withNpm) return
  const folder = join((await succeed('npm', ['root', '--global'])).trim(), 'npm')
  mkdirSync(join(root, 'usr/local/lib/node_modules'), { recursive: true })
  cpSync(folder, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true })
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'))
}

/** Runs a script of a RUN instruction inside a root. */
export async function runIn (root: string, workdir: string, script: string): Promise<void> {
  const registry = (await succeed('npm', ['config', 'get', 'registry'])).trim()
  const architecture = (await succeed('dpkg', ['--print-architecture'])).trim()
  await succeed('unshare', [
    '--mount',
    'sh',
    '-ec',
    'mount -t proc proc "$1/proc"; exec chroot "$1" sh -ec "cd $2; $3"',
    'sh',
    root,
    workdir,
    script
  ], {
    PATH: path,
    HOME: '/root',
    TARGETARCH: architecture,
    npm_config_registry: registry,
    ...(ownAuthorities !== undefined && { NODE_EXTRA_CA_CERTS: authorities })
  })
}

/** Runs a command inside a root to its end, as any user. */
export async function commandIn (
  root: string,
  command: readonly string[],
  env: Record<string, string>
): Promise<ProgramResult> {
  return await runProgram('chroot', ['--userspec=1000:1000', root, ...inEnvironment(env, command)], {
    env: { PATH: path }
  })
}

/** Starts a command as the first process of its own namespace, as a user, in a root that nothing can write to. */
export function startReadOnly (
  root: string,
  user: string,
  command: readonly string[],
  env: Record<string, string>
): ChildProcess {
  const script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec chroot "$@"'
  return spawn('unshare', [
    '--pid',
    '--fork',
    '--mount',
    'sh',
    '-ec',
    script,
    'sh',
    root,
    `--userspec=${user}`,
    '--groups=',
    root,
    ...inEnvironment(env, command)
  ], { env: { PATH: path }, cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] })
}

// Sets variables inside the root only: LD_PRELOAD names a library there.
function inEnvironment (env: Record<string, string>, command: readonly string[]): string[] {
  return ['env', ...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command]
}

async function succeed (command: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<string> {
  const { code, stdout, stderr } = await runProgram(command, args, env === undefined ? {} : { env })
  if (code !== 0) {
    throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${`${stdout}${stderr}`.slice(-3000)}`)
  }
  return stdout
}

/**
 * Runs the steps of a Dockerfile without an engine, each stage in a root of its own, and returns the last stage's root.
 * Debian's smallest system stands for the bases, with this Node.js where the base is Node.js.
 */
export async function buildImage (stages: readonly BuildStage[], dir: string): Promise<string> {
  const context = contextIn(join(dir, 'context'))
  const debian = join(dir, 'debian')
  await installDebian(debian)
  const rootOf = (name: string | undefined): string => join(dir, `stage-${name ?? 'last'}`)
  for (const { image, name, steps } of stages) {
    const root = rootOf(name)
    await copyRoot(debian, root)
    if (image.startsWith('node:')) await addNode(root, steps.length > 0)
    let workdir = '/'
    for (const step of steps) {
      if (step.name === 'WORKDIR') mkdirSync(join(root, workdir = step.text), { recursive: true })
      if (step.name === 'COPY') copy(step, root, workdir, from => from === undefined ? context : rootOf(from))
      if (step.name === 'RUN') await runIn(root, workdir, step.text)
    }
  }
  return rootOf(stages.at(-1)?.name)
}

// Returns the build context: `.dockerignore` excludes everything but the named paths.
function contextIn (folder: string): string {
  mkdirSync(folder, { recursive: true })
  const [all, ...named] = readFileSync(join(checkoutRoot, '.dockerignore'), 'utf8').split('\n').filter(line =>
    line !== '' && !line.startsWith('#')
  )
  if (all !== '*' || named.some(line => !/^![\w.-]+$/.test(line))) throw new Error('a .dockerignore of another kind')
  for (const line of named) cpSync(join(checkoutRoot, line.slice(1)), join(folder, line.slice(1)), { recursive: true })
  return folder
}

function copy (
  { text }: Instruction,
  folder: string,
  workdir: string,
  originOf: (from: string | undefined) => string
): void {
  const { from, sources, to } = copyOf(text)
  const target = join(folder, to.startsWith('/') ? '' : workdir, to)
  const isFolder = to.endsWith('/')
  for (const source of sources) {
    const origin = join(originOf(from), source)
    // Copies the contents of a folder, not the folder.
    const into = isFolder && !isDirectory(origin) ? join(target, source.slice(source.lastIndexOf('/') + 1)) : target
    mkdirSync(dirname(into), { recursive: true })
    cpSync(origin, into, { recursive: true, verbatimSymlinks: true })
  }
}

function isDirectory (path: string): boolean {
  try {
    return readdirSync(path) !== undefined
  } catch {
    return false
  }
}
