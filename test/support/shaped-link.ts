import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Test } from 'tap'

const run = promisify(execFile)

/** A link to a network namespace with limited bandwidth. */
export interface ShapedLink {
  /** Address of this side. */
  readonly host: string
  /** Runs a Node.js program on the other side; resolves with its output. */
  node(program: string, ...args: string[]): Promise<string>
}

/** Creates a link with a limited rate from this side; returns a reason if the system does not allow it. */
export async function shapedLink (t: Test, rate: string): Promise<ShapedLink | string> {
  const id = `varve${process.pid % 100_000}`
  // Addresses for network tests (RFC 2544), as a /30, to hide little of the machine's network.
  const [host, other] = [`198.18.${process.pid % 256}.1`, `198.18.${process.pid % 256}.2`]
  const [here, there] = [`${id}a`, `${id}b`]
  // Shapes with a queue of 3 MB, as modems do: the kernel accepts megabytes at once and then reports little progress.
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
    // Ignores errors: the link goes with either end, and may not exist.
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
