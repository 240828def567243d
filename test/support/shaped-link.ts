import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Test } from 'tap'

const run = promisify(execFile)

/** A link to a network namespace that carries only so much. */
export interface ShapedLink {
  /** The address of this side. */
  readonly host: string
  /** Runs a program of Node's on the other side; resolves with what it printed. */
  node(program: string, ...args: string[]): Promise<string>
}

/** Makes a link whose way out of this side is shaped to a rate; the reason where the system does not let us. */
export async function shapedLink (t: Test, rate: string): Promise<ShapedLink | string> {
  const id = `varve${process.pid % 100_000}`
  // Addresses for tests of networks (RFC 2544); the four of a /30 hide no more of what the machine may reach.
  const [host, other] = [`198.18.${process.pid % 256}.1`, `198.18.${process.pid % 256}.2`]
  const [here, there] = [`${id}a`, `${id}b`]
  // A queue of 3 MB, as modems have: it lets the kernel take megabytes at once, and report little progress after that.
  const steps = [
    `ip netns add ${id}`,
    `ip link add ${here} type veth peer name ${there} netns ${id}`,
    `ip addr add ${host}/30 dev ${here}`,
    `ip link set ${here} up`,
    `ip -n ${id} addr add ${other}/30 dev ${there}`,
    `ip -n ${id} link set ${there} up`,
    `tc qdisc add dev ${here} root tbf rate ${rate} burst 16kb limit 3mb`
  ]
  t.teardown(async () => {
    // The link goes with either of its ends; what was not made cannot be removed.
    await run('ip', ['link', 'del', here]).catch(() => {})
    await run('ip', ['netns', 'del', id]).catch(() => {})
  })
  try {
    for (const step of steps) {
      const [command = '', ...args] = step.split(' ')
      await run(command, args)
    }
  } catch (error) {
    return `no network namespace can be made here: ${(error as Error).message.trim().split('\n').at(-1)}`
  }
  const node = async (program: string, ...args: string[]): Promise<string> =>
    (await run('ip', ['netns', 'exec', id, process.execPath, '--input-type=module', '-e', program, ...args])).stdout
  return { host, node }
}
