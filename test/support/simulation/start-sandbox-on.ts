import { type Sandbox, type SandboxOptions, startSandbox } from '#sandbox'
import { chainId, type Era } from './chain.js'

/** Starts an embedded node on the chain of an era, as far as that has got. */
export async function startSandboxOn (
  { seed, startUsec, archive }: Era,
  windowBlocks: number,
  release: string
): Promise<Sandbox> {
  const options: SandboxOptions = {
    seed,
    chainId,
    release,
    windowBlocks,
    blocks: archive.height + 1,
    prunedBlocks: 0,
    blockMs: 0,
    startVersion: 0n
  }
  // The ledger takes its clock from the same options, though people need not set it.
  return await startSandbox(Object.assign(options, { startUsec }))
}

/** Where it listens. */
export function sandboxPortOf ({ url }: Sandbox): number {
  return Number(new URL(url).port)
}
