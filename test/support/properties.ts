import fc from 'fast-check'

// A seed of the run's own unless one is given, and printed with every failure, so that it can be run again.
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000_000)

/** Checks a property so many times, more with RUNS_FACTOR; the seed stands in the title of the test that uses it. */
export function check<T extends [unknown, ...unknown[]]> (property: fc.IProperty<T>, runs = 200): void {
  fc.assert(property, { seed, numRuns: runs * Number(process.env['RUNS_FACTOR'] ?? 1), verbose: fc.VerbosityLevel.Verbose })
}

/** The same for properties that ask a node. */
export async function checkAsync<T extends [unknown, ...unknown[]]> (property: fc.IAsyncProperty<T>, runs = 200): Promise<void> {
  await fc.assert(property, { seed, numRuns: runs * Number(process.env['RUNS_FACTOR'] ?? 1), verbose: fc.VerbosityLevel.Verbose })
}

/** How to say the seed in a title. */
export const seeded = `seed ${seed}`
