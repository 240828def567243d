import { mkdirSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { threadId } from 'node:worker_threads'

// Preloaded by every process of a run with coverage; excludes packages, since only the program counts.
const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, '.tap/coverage')
const ours = ['dist/', '.tap/js/src/', '.tap/js/sandbox/'].map(path => pathToFileURL(join(root, path)).href)

const session = new Session()
session.connect()
session.post('Profiler.enable')
// Asks which blocks ran, not how often: counting costs a tenth of the tests' processor time.
session.post('Profiler.startPreciseCoverage', { callCount: false, detailed: true })
process.on('exit', () => {
  session.post('Profiler.takePreciseCoverage', (error, coverage) => {
    if (error !== null) throw error
    const result = coverage.result.filter(({ url }) => ours.some(prefix => url.startsWith(prefix)))
    if (result.length === 0) return
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `${process.pid}-${threadId}-${Date.now()}.json`), JSON.stringify({ result }))
  })
})
