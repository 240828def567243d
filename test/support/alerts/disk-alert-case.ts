import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test } from 'tap'
import { newHistoryTarget, type AlertEnvironment, type AlertCase } from './alert-environment.js'

/** Puts a file in the place of the folder with the entries. */
export async function diskAlertCase (t: Test, stage: AlertEnvironment): Promise<AlertCase> {
  const path = await mkdtemp(join(tmpdir(), 'varve-alerts-'))
  t.teardown(async () => {
    await rm(path, { recursive: true })
  })
  const disk = { cache: { disk: { path, maxGb: 0.1 } } } as Parameters<AlertEnvironment['startVarve']>[1]
  const varve = await stage.startVarve([await stage.startUpstream()], disk)
  let version = 1000
  const end = stage.repeat(100, async () => await varve.get(newHistoryTarget(++version)))
  return {
    alert: 'VarveDiskDropsEntries',
    labels: { tier: 'disk' },
    adminUrl: varve.adminUrl,
    isValue: value => value > 0.05 && value <= 1,
    description: /[\d.]+% of the entries of .* were not stored on the disk\.$/,
    begin: async () => {
      await rename(join(path, 'entries'), join(path, 'moved'))
      await writeFile(join(path, 'entries'), '')
    },
    fix: async () => {
      await rm(join(path, 'entries'))
      await rename(join(path, 'moved'), join(path, 'entries'))
      end()
    }
  }
}
