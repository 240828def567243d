import { makeReady } from './ready.js'
import { singly } from './suites.js'
import { close, runTap } from './tap.js'

// Draws the status page of every level in both themes and at phone width, and writes the pictures to docs/images.
close(await draw())

async function draw () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  return await runTap(singly(['test/http/status-pictures.slow.test.ts']), {
    timeoutSeconds: 180,
    env: { SCREENSHOTS: new URL('../docs/images', import.meta.url).pathname }
  })
}
