import fc from 'fast-check'

// The same seed each time, so that a run can be repeated; SEED=n takes another, SEED=random one of its own. Titles
// print it.
const seed = process.env['SEED'] === 'random' ? Date.now() % 1_000_000_000 : Number(process.env['SEED'] ?? 20_261_121)

/** Checks a property so many times, more with RUNS_FACTOR; the seed stands in the title of the test that uses it. */
export function check<T extends [unknown, ...unknown[]]> (property: fc.IProperty<T>, runs = 200): void {
  fc.assert(property, {
    seed,
    numRuns: runs * Number(process.env['RUNS_FACTOR'] ?? 1),
    verbose: fc.VerbosityLevel.Verbose
  })
}

/** The same for properties that ask a node. */
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

/** How to say the seed in a title. */
export const seedTitle = `seed ${seed}`
