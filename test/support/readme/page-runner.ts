import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { sendRequest } from '../client.js'
import { runProgram } from '../run-npm.js'
import { startRedis } from '../redis-server.js'
import { until } from '../until.js'
import { type CodeBlock, actionOf } from './code-blocks.js'
import { pageConfig } from './page-config.js'
import { type PagePorts } from './page-ports.js'
import { PageServer, isSandboxCommand, isServerCommand } from './page-server.js'
import { matchesOutput } from './expected-output.js'

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
