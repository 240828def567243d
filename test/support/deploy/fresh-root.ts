import { spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ProgramResult, runProgram } from '../run-npm.js'

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
