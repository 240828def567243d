import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test } from 'tap'

/** Makes a folder that outlives whatever the test starts in it: tap removes `t.testdir()` before anything stops. */
export function testFolder (t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'varve-test-'))
  t.teardown(() => {
    rmSync(path, { recursive: true, force: true })
  })
  return path
}
