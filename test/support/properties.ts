import fc from 'fast-check'

// Fixes the seed, so that a run can be repeated; SEED=n sets another, SEED=random draws one. Titles print it.
const seed = process.env['SEED'] === 'random' ? Date.now() % 1_000_000_000 : Number(process.env['SEED'] ?? 20_261_121)

/** Checks a property in `runs` random runs, more with RUNS_FACTOR; the test's title must have the seed. */
export function check<T extends [unknown, ...unknown[]]> (property: fc.IProperty<T>, runs = 200): void {
  fc.assert(property, {
    seed,
    numRuns: runs * Number(process.env['RUNS_FACTOR'] ?? 1),
    verbose: fc.VerbosityLevel.Verbose
  })
}

/** The same for asynchronous properties. */
export async function checkAsync<T extends [unknown, ...unknown[]]> (
  property: fc.IAsyncProperty<T>,
  runs = 200
): Promise<void> {
  await fc.assert(property, {
    seed,
    numRuns: runs * Number(process.env['RUNS_FACTOR'] ?? 1),
    verbose: fc.VerbosityLevel.Verbose
  })
}

/** The seed for titles. */
export const seedTitle = `seed ${seed}`
