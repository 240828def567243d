import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Test } from 'tap'
import { type Loaded, loadConfig } from '../../../src/config/load.js'
import { maskSecrets } from '../../../src/config/secrets.js'
import { root, text } from './manifests.js'

/**
 * What `varve check` makes of a configuration whose secrets lie in a folder, which here is another one: all of them are
 * used, and none is shown.
 */
export async function checked (
  t: Test,
  file: string,
  folder: string,
  secrets: Record<string, string>
): Promise<Loaded['config']> {
  const dir = t.testdir(secrets)
  writeFileSync(join(dir, 'varve.yaml'), text(file).replaceAll(folder, dir))
  await promisify(execFile)(process.execPath, [
    '--import',
    './scripts/typescript.js',
    'src/cli.ts',
    'check',
    join(dir, 'varve.yaml')
  ], { cwd: root })
  const { config, fromFiles } = loadConfig({}, { config: join(dir, 'varve.yaml') })
  for (const secret of Object.values(secrets)) {
    t.ok(JSON.stringify(config).includes(secret), 'every secret that is mounted is used')
    t.notOk(JSON.stringify(maskSecrets(config, fromFiles)).includes(secret))
  }
  return config
}
