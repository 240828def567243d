import { type Sandbox, type SandboxOptions, startSandbox } from '#sandbox'
import { chainId, type Era } from './chain.js'

/** Starts an embedded node on the chain of an era, up to its current head. */
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
  // Passes startUsec to the ledger, although it is no public option.
  return await startSandbox(Object.assign(options, { startUsec }))
}

/** Returns its port. */
export function sandboxPortOf ({ url }: Sandbox): number {
  return Number(new URL(url).port)
}
