import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Test } from 'tap'
import { type LoadedConfig, loadConfig } from '../../../src/config/load.js'
import { maskSecrets } from '../../../src/config/secrets.js'
import { checkoutRoot, readCheckout } from './manifests.js'

/** Runs `varve check` with secrets in another folder, and expects that it uses all and shows none. */
export async function checkConfig (
  t: Test,
  file: string,
  folder: string,
  secrets: Record<string, string>
): Promise<LoadedConfig['config']> {
  const dir = t.testdir(secrets)
  writeFileSync(join(dir, 'varve.yaml'), readCheckout(file).replaceAll(folder, dir))
  await promisify(execFile)(process.execPath, [
    'dist/cli.js',
    'check',
    join(dir, 'varve.yaml')
  ], { cwd: checkoutRoot })
  const { config, fromFiles } = loadConfig({}, { config: join(dir, 'varve.yaml') })
  for (const secret of Object.values(secrets)) {
    t.ok(JSON.stringify(config).includes(secret), 'every mounted secret is used')
    t.notOk(JSON.stringify(maskSecrets(config, fromFiles)).includes(secret))
  }
  return config
}
