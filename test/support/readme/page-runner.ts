import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { sendRequest } from '../client.js'
import { runProgram } from '../run-program.js'
import { startRedis } from '../redis-server.js'
import { until } from '../until.js'
import { freePort } from '../free-port.js'
import { startSandbox } from '#sandbox'
import { type CodeBlock, actionOf, matchesOutput, pageConfig } from './code-blocks.js'

// Simulates a job of the reader's shell, which a block must neither end nor wait for.
const bystander = 'sleep 60 > /dev/null 2>&1 &\ntrap "kill $!" EXIT'

/** Runs a page from top to bottom in a clone, as a reader would. */
export class PageRunner {
  readonly #clone: string
  readonly #places: PagePorts
  readonly #env: NodeJS.ProcessEnv
  #varve: PageServer | undefined
  #server: PageServer | undefined

  constructor (t: Test, clone: string, places: PagePorts) {
    this.#clone = clone
    this.#places = places
    this.#env = envOf(clone, places)
    t.teardown(() => {
      this.#varve?.kill()
      this.#server?.kill()
    })
  }

  /** Starts external services that a page uses, a node and Redis, and adapts the clone's examples to them. */
  async startServices (t: Test, blocks: readonly CodeBlock[]): Promise<void> {
    const text = blocks.filter(({ skipReason }) => skipReason === undefined).map(({ text }) => text).join('\n')
    if (/:6379\b/.test(text)) await startRedis(t, { port: this.#places.port(6379) })
    if (!text.split('\n').some(isSandboxCommand)) {
      const sandbox = await startSandbox({ port: this.#places.port(8081) })
      t.teardown(async () => {
        await sandbox.close()
      })
    }
    const folder = join(this.#clone, 'config')
    for (const file of readdirSync(folder).filter(name => name.endsWith('.yaml'))) {
      writeFileSync(join(folder, file), this.#places.withFreePorts(readFileSync(join(folder, file), 'utf8')))
    }
  }

  /** Runs or checks a block; returns its error, or undefined. */
  async runBlock (block: CodeBlock): Promise<string | undefined> {
    if (block.skipReason !== undefined) return undefined
    if (actionOf(block) === 'run') return await this.#run(block)
    if (block.language === 'json') {
      return faultOf(() => {
        JSON.parse(block.text)
      })
    }
    if (block.language === 'promql') return await this.#promql(block.text)
    if (block.file !== undefined) writeFileSync(join(this.#clone, block.file), this.#places.withFreePorts(block.text))
    const { file, env } = pageConfig(block.text, join(this.#clone, '.page'))
    const { code, stderr } = await runProgram('varve', ['check', file], {
      cwd: this.#clone,
      env: { ...this.#env, ...env }
    })
    return code === 0 ? undefined : `varve check: ${stderr}`
  }

  /** Ends all servers of the page. */
  async close (): Promise<void> {
    await this.#varve?.stop()
    await this.#server?.stop()
  }

  async #run ({ text, expectedOutput, exitCode }: CodeBlock): Promise<string | undefined> {
    // Skips blocks that name their own jobs: they start and end servers themselves.
    const startsServers = !text.includes('$!') && text.split('\n').some(isServerCommand)
    const commands = startsServers ? text.split('\n').filter(line => line.trim() !== '') : [text]
    let printed = ''
    for (const command of commands) {
      if (startsServers && isServerCommand(command)) {
        await this.#start(command)
        continue
      }
      if (/:(?:8080|9464)\b/.test(command) && this.#varve === undefined) await this.#start('npm start')
      const { code, stdout } = await runProgram('timeout', [
        '60',
        'sh',
        '-ec',
        `exec 2>&1\n${bystander}\n${this.#places.withFreePorts(command)}`
      ], { cwd: this.#clone, env: this.#env })
      printed += this.#places.withDocumentedPorts(stdout)
      if (code !== exitCode) return `ended with ${code}, not ${exitCode}:\n${printed}`
    }
    return expectedOutput === undefined || matchesOutput(printed, expectedOutput)
      ? undefined
      : `prints\n${printed}\nand the page shows\n${expectedOutput.text}`
  }

  async #start (command: string): Promise<void> {
    if (isSandboxCommand(command)) {
      const listen = command.includes('--listen') ? '' : ` --listen 127.0.0.1:${this.#places.port(8081)}`
      this.#server = await PageServer.start(`${this.#places.withFreePorts(command)}${listen}`, this.#clone, this.#env)
      return
    }
    // Ends the server before: readers do so too, since both use one address.
    const before = this.#varve
    this.#varve = undefined
    await before?.stop()
    this.#varve = await PageServer.start(this.#places.withFreePorts(command), this.#clone, this.#env)
    await until(
      async () => (await sendRequest(`http://127.0.0.1:${this.#places.port(9464)}`, '/readyz')).status === 200,
      'varve is ready',
      30_000
    )
  }

  async #promql (text: string): Promise<string | undefined> {
    const file = join(this.#clone, '.rules.json')
    const rules = text.split(/\n\s*\n/).map((expr, nth) => ({ record: `page:${nth}`, expr }))
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'page', rules }] }))
    const { code, stdout, stderr } = await runProgram('promtool', ['check', 'rules', file])
    return code === 0 ? undefined : `promtool: ${stdout}${stderr}`
  }
}

/** Returns the environment of a reader's terminal: only the free ports, and `varve` on PATH as installed. */
function envOf (clone: string, places: PagePorts): NodeJS.ProcessEnv {
  const bin = join(clone, '.bin')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'varve'), `#!/bin/sh\nexec node '${clone}/dist/cli.js' "$@"\n`)
  chmodSync(join(bin, 'varve'), 0o755)
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('VARVE_') && !name.startsWith('npm_'))
  return {
    ...Object.fromEntries(own),
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    VARVE_LISTEN: `127.0.0.1:${places.port(8080)}`,
    VARVE_ADMIN: `127.0.0.1:${places.port(9464)}`
  }
}

function faultOf (act: () => void): string | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

// Ports on pages: varve, its admin listener, a node, a recorder or replay, and Redis.
const documented = [8080, 9464, 8081, 8082, 6379] as const
const pattern = /\b(?:127\.0\.0\.1|localhost):(8080|9464|8081|8082|6379)\b/g

/** Replaces the ports of pages by free ones, because theirs may be taken on the machine. */
export class PagePorts {
  readonly #ports: ReadonlyMap<number, number>

  private constructor (ports: ReadonlyMap<number, number>) {
    this.#ports = ports
  }

  static async find (): Promise<PagePorts> {
    const ports = new Map<number, number>()
    for (const port of documented) {
      let free = await freePort()
      while ([...ports.values()].includes(free)) free = await freePort()
      ports.set(port, free)
    }
    return new PagePorts(ports)
  }

  /** Returns the real port for a documented one. */
  port (of: typeof documented[number]): number {
    return this.#ports.get(of) ?? of
  }

  /** Replaces documented ports in a text. */
  withFreePorts (text: string): string {
    return text.replace(pattern, (_whole, port: string) => `127.0.0.1:${this.#ports.get(Number(port)) ?? port}`)
  }

  /** Restores documented ports in an output. */
  withDocumentedPorts (text: string): string {
    return [...this.#ports].reduce(
      (text, [page, port]) => text.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${page}`),
      text
    )
  }
}

const startLine =
  /^(?:[A-Z_]+=\S+ +)*(?:npm start|(?:varve|node dist\/cli\.js)(?: +serve| +sandbox)?)(?= *&?$| +-)(?!.*(?: --help| -h\b))/
const listening = /"msg":"listening"|a made-up node on/
const startMs = 300_000
const stopMs = 15_000

/** True if a command runs until it is stopped. */
export function isServerCommand (command: string): boolean {
  return startLine.test(command)
}

/** True if a command starts the embedded node only. */
export function isSandboxCommand (command: string): boolean {
  return isServerCommand(command) && /(?:varve|cli\.js) +sandbox\b/.test(command)
}

/** A server that a page starts. */
export class PageServer {
  readonly #child: ChildProcess
  #output = ''

  private constructor (command: string, cwd: string, env: NodeJS.ProcessEnv) {
    // Starts a process group, as a terminal does: Ctrl-C reaches all of it.
    this.#child = spawn('sh', ['-c', command], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', text => {
        this.#output += String(text)
      })
    }
  }

  /** Starts a server and waits until it reports that it listens. */
  static async start (command: string, cwd: string, env: NodeJS.ProcessEnv): Promise<PageServer> {
    const server = new PageServer(command.replace(/ *&$/, ''), cwd, env)
    try {
      await server.#listens(command)
      return server
    } catch (error) {
      server.kill()
      throw error
    }
  }

  /** Sends Ctrl-C; rejects if the server does not exit well. */
  async stop (): Promise<void> {
    const { pid, exitCode } = this.#child
    if (pid === undefined || exitCode !== null) {
      throw new Error(`a server has ended by itself with ${exitCode}:\n${this.#output}`)
    }
    const ended = once(this.#child, 'close', { signal: AbortSignal.timeout(stopMs) })
    process.kill(-pid, 'SIGINT')
    await ended
    if (!/"msg":"stopped"|a made-up node on/.test(this.#output)) {
      throw new Error(`a server has not stopped as it should:\n${this.#output}`)
    }
  }

  /** Kills the server if it still runs. */
  kill (): void {
    const { pid, exitCode, signalCode } = this.#child
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL')
  }

  async #listens (command: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`after ${startMs} ms it does not listen: ${command}\n${this.#output}`))
      }, startMs)
      const look = (): void => {
        if (listening.test(this.#output)) end(resolve)
      }
      const end = (how: () => void): void => {
        clearTimeout(timer)
        this.#child.stdout?.off('data', look)
        how()
      }
      this.#child.stdout?.on('data', look)
      this.#child.once('close', code => {
        end(() => {
          reject(new Error(`ended with ${code}: ${command}\n${this.#output}`))
        })
      })
    })
  }
}
