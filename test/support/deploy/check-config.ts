import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Test } from 'tap'
import { type LoadedConfig, loadConfig } from '../../../src/config/load.js'
import { maskSecrets } from '../../../src/config/secrets.js'
import { checkoutRoot } from './checkout.js'

/** Runs `varve check` on a text, with secrets in another folder; expects that it uses all and shows none. */
export async function checkConfig (
  t: Test,
  text: string,
  folder: string,
  secrets: Record<string, string>
): Promise<LoadedConfig['config']> {
  const dir = t.testdir(secrets)
  writeFileSync(join(dir, 'varve.yaml'), text.replaceAll(folder, dir))
  await promisify(execFile)(process.execPath, [
    'dist/cli.js',
    'check',
    join(dir, 'varve.yaml')
  ], { cwd: checkoutRoot })
  const { config } = loadConfig({}, { config: join(dir, 'varve.yaml') })
  for (const secret of Object.values(secrets)) {
    t.ok(JSON.stringify(config).includes(secret), 'every mounted secret is used')
    t.notOk(JSON.stringify(maskSecrets(config)).includes(secret))
  }
  return config
}
